/* contains: texts that must all, must at least once, or must not stand in the output; from the
 * parameters or from the request's metadata. Linear per needle (memmem). */
#include "verifier/check.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct contains {
    struct cfg_text_list all, any, none;
    bool ignore_case, whole_words, partial;
    int from_metadata;
    struct str field;
    struct arena arena;
};

enum { FROM_NOTHING, FROM_ALL, FROM_ANY, FROM_NONE };
static const char *const FROM[] = {"nothing", "all", "any", "none", NULL};
#define AT(field) offsetof(struct contains, field)
static const struct option OPTIONS[] = {
    {"all", OPTION_TEXTS, AT(all), 0, 0, NULL, "every one must be there"},
    {"any", OPTION_TEXTS, AT(any), 0, 0, NULL, "at least one must be there"},
    {"none", OPTION_TEXTS, AT(none), 0, 0, NULL, "not one may be there"},
    {"ignore_case", OPTION_BOOL, AT(ignore_case), 0, 0, NULL, "compare after case folding"},
    {"whole_words", OPTION_BOOL, AT(whole_words), 0, 0, NULL, "not inside a longer word"},
    {"partial", OPTION_BOOL, AT(partial), 0, 0, NULL, "score the share of `all` found"},
    {"from_metadata", OPTION_ENUM, AT(from_metadata), 0, 0, FROM, "which list the field adds to"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field: a text or a list of texts"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void contains_close(void *state)
{
    struct contains *c = state;
    if (c)
        arena_free(&c->arena);
    free(c);
}

static int check_lists(const struct contains *c, struct err *e)
{
    const struct cfg_text_list *list[] = {&c->all, &c->any, &c->none};
    for (int l = 0; l < 3; l++)
        for (uint32_t i = 0; i < list[l]->n; i++)
            if (list[l]->item[i].n == 0)
                return err_set(e, ERR_INVALID, "%s[%u]: found an empty text, which is everywhere",
                               FROM[l + 1], i);
    if (c->all.n + c->any.n + c->none.n == 0 && c->from_metadata == FROM_NOTHING)
        return err_set(e, ERR_INVALID,
                       "nothing to look for: give all, any, none, or from_metadata");
    return ERR_OK;
}

static int contains_open(void **state, const struct json_at *params, struct err *e)
{
    struct contains *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&c->arena, 256 * KiB);
    c->field = STR("reference");
    int rc = options_read(OPTIONS, OPTIONS_N, params, &c->arena, c, e);
    if (rc == ERR_OK)
        rc = check_lists(c, e);
    if (rc != ERR_OK) {
        contains_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static bool is_word_byte(struct str s, size_t i)
{
    unsigned char c = (unsigned char)s.p[i];
    return c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool stands_in(const struct contains *c, struct str text, struct str needle,
                      const struct check_item *item)
{
    if (c->ignore_case)
        needle = text_form(needle, TEXT_FOLD_CASE, item->arena);
    if (!needle.p)
        return false;
    for (ptrdiff_t at = 0; (at = str_find(text, needle, (size_t)at)) >= 0; at++) {
        size_t end = (size_t)at + needle.n;
        bool starts = at == 0 || !is_word_byte(text, (size_t)at - 1) || !is_word_byte(needle, 0);
        bool ends =
            end == text.n || !is_word_byte(text, end) || !is_word_byte(needle, needle.n - 1);
        if (!c->whole_words || (starts && ends))
            return true;
    }
    return false;
}

static uint32_t count_found(const struct contains *c, struct str text,
                            const struct cfg_text_list *list, const struct check_item *item)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < list->n; i++)
        found += stands_in(c, text, list->item[i], item);
    return found;
}

/* The metadata's text or texts; false when there is none that can be used. */
static bool read_metadata(const struct contains *c, const struct check_item *item,
                          struct cfg_text_list *out)
{
    const json_t *v = check_metadata(item, c->field.p);
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (!v || n == 0 || n > OPTION_MAX_TEXTS)
        return false;
    out->item = arena_array(item->arena, n, sizeof *out->item);
    for (size_t i = 0; out->item && i < n; i++) {
        const json_t *text = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(text) || json_string_length(text) == 0)
            return false;
        out->item[i] = (struct str){json_string_value(text), json_string_length(text)};
    }
    out->n = (uint32_t)n;
    return out->item != NULL;
}

struct tally {
    uint32_t all_found, all_n, any_found, any_n, none_found;
};

static struct check_verdict judge(const struct contains *c, const struct tally *t)
{
    if (t->none_found)
        return check_pass_if(false, "forbidden_text");
    if (t->any_n && !t->any_found)
        return check_pass_if(false, "missing_text");
    if (c->partial && t->all_n)
        return check_share((double)t->all_found / t->all_n, "missing_text");
    return check_pass_if(t->all_found == t->all_n, "missing_text");
}

static struct check_verdict contains_run(const void *state, const struct check_item *item)
{
    const struct contains *c = state;
    struct str text = item->output->text;
    if (text.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    struct cfg_text_list asked = {0};
    if (c->from_metadata != FROM_NOTHING && !read_metadata(c, item, &asked))
        return check_unscored("no_reference");
    if (c->ignore_case)
        text = text_form(text, TEXT_FOLD_CASE, item->arena);
    if (!text.p && item->output->text.n)
        return check_unscored("no_memory");
    struct tally t = {
        .all_found = count_found(c, text, &c->all, item),
        .all_n = c->all.n,
        .any_found = count_found(c, text, &c->any, item),
        .any_n = c->any.n,
        .none_found = count_found(c, text, &c->none, item),
    };
    uint32_t found = count_found(c, text, &asked, item);
    t.all_found += c->from_metadata == FROM_ALL ? found : 0;
    t.all_n += c->from_metadata == FROM_ALL ? asked.n : 0;
    t.any_found += c->from_metadata == FROM_ANY ? found : 0;
    t.any_n += c->from_metadata == FROM_ANY ? asked.n : 0;
    t.none_found += c->from_metadata == FROM_NONE ? found : 0;
    return judge(c, &t);
}

const struct check_ops CHECK_CONTAINS = {
    .kind = "contains",
    .code_version = 1,
    .summary = "texts that must all, must at least once, or must not be there",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = contains_open,
    .run = contains_run,
    .close = contains_close,
};
