/* constraints: the output follows the verifiable instructions that the request's metadata lists,
 * [{"id": "count:numbers", "kwargs": {"N": 3}}, ...], or instruction_id_list and kwargs side by
 * side as the data sets have them. Scores per instruction with `partial`; `loose` also accepts the
 * text without its first line, its last line, its asterisks (arXiv 2311.07911 section 2.2). */
#include "verifier/check.h"
#include "verifier/constraints/constraint.h"
#include "verifier/text/language.h"
#include "verifier/text/text.h"

#include <stdlib.h>
#include <string.h>

struct constraints {
    struct str field;
    bool partial, loose;
    struct language *language;
};

enum { CONSTRAINTS_MAX = 32, VARIANTS = 8 };
#define AT(field) offsetof(struct constraints, field)
static const struct option OPTIONS[] = {
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field with the list"},
    {"partial", OPTION_BOOL, AT(partial), 0, 0, NULL, "score the share that is followed"},
    {"loose", OPTION_BOOL, AT(loose), 0, 0, NULL,
     "also without the first line, the last line, asterisks"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void constraints_close(void *state)
{
    struct constraints *c = state;
    if (c)
        language_close(c->language);
    free(c);
}

static int constraints_open(void **state, const struct json_at *params, struct err *e)
{
    struct constraints *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    c->field = STR("constraints");
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, c, e);
    if (rc == ERR_OK)
        rc = language_open(&c->language, e);
    if (rc != ERR_OK) {
        constraints_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

struct asked { /* both forms of the metadata */
    const json_t *list, *kwargs;
    size_t n;
};

static bool find_asked(const struct constraints *c, const struct check_item *item,
                       struct asked *out)
{
    out->list = check_metadata(item, c->field.p);
    out->kwargs = NULL;
    if (!out->list) {
        out->list = check_metadata(item, "instruction_id_list");
        out->kwargs = check_metadata(item, "kwargs");
    }
    out->n = json_array_size(out->list);
    return json_is_array(out->list) && out->n > 0 && out->n <= CONSTRAINTS_MAX;
}

static struct str text_of(const json_t *v)
{
    return json_is_string(v) ? (struct str){json_string_value(v), json_string_length(v)} : STR("");
}

static void read_one(const struct asked *a, size_t i, struct str *id, const json_t **kwargs)
{
    const json_t *v = json_array_get(a->list, i);
    if (!json_is_object(v)) {
        *id = text_of(v);
        *kwargs = json_array_get(a->kwargs, i);
        return;
    }
    *id = text_of(json_object_get(v, "id"));
    *kwargs = json_object_get(v, "kwargs");
}

/* The text without its first or last line. */
static struct str without_lines(struct str s, bool first, bool last)
{
    struct str cut = s;
    if (first)
        str_split(&cut, '\n', &(struct str){0});
    if (!cut.p)
        return STR("");
    while (last && cut.n && cut.p[cut.n - 1] != '\n')
        cut.n--;
    return first || last ? text_trim(cut) : s;
}

static struct str without_asterisks(struct str s, struct arena *a)
{
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n; i++)
        if (s.p[i] != '*')
            to[n++] = s.p[i];
    return (struct str){to ? to : s.p, to ? n : s.n};
}

static uint32_t make_variants(const struct constraints *c, struct str text, struct arena *a,
                              struct str variant[VARIANTS])
{
    variant[0] = text;
    if (!c->loose)
        return 1;
    for (uint32_t i = 0; i < VARIANTS; i++) {
        struct str s = without_lines(text, i & 1, i & 2);
        variant[i] = i & 4 ? without_asterisks(s, a) : s;
    }
    return VARIANTS;
}

/* Followed when any variant follows it; unscored when none does and one could not be told. */
static enum constraint_outcome check_one(const struct constraints *c, const struct asked *a,
                                         size_t i, const struct str *variant, uint32_t n,
                                         const struct check_item *item, const char **reason)
{
    enum constraint_outcome outcome = CONSTRAINT_BROKEN;
    struct str id;
    const json_t *kwargs;
    read_one(a, i, &id, &kwargs);
    for (uint32_t k = 0; k < n; k++) {
        const char *why = NULL;
        enum constraint_outcome one =
            constraint_check(id, kwargs, variant[k], item, c->language, &why);
        if (one == CONSTRAINT_FOLLOWED)
            return one;
        if (one == CONSTRAINT_UNSCORED) {
            outcome = one;
            *reason = why;
        }
    }
    return outcome;
}

/* A broken instruction decides, unless shares are asked for; what could not be told never passes.
 */
static struct check_verdict judge(const struct constraints *c, size_t followed, size_t broken,
                                  size_t asked, const char *reason)
{
    bool is_decided = broken > 0 && !c->partial;
    if (reason && !is_decided)
        return check_unscored(reason);
    struct check_verdict v = c->partial
                                 ? check_share((double)followed / (double)asked, "not_followed")
                                 : check_pass_if(broken == 0, "not_followed");
    v.measure = (double)followed;
    return v;
}

static struct check_verdict constraints_run(const void *state, const struct check_item *item)
{
    const struct constraints *c = state;
    struct asked a;
    struct str variant[VARIANTS];
    size_t count[3] = {0};
    const char *reason = NULL;
    if (!find_asked(c, item, &a))
        return check_unscored("no_reference");
    if (item->output->text.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    struct str text = text_valid(item->output->text, item->arena);
    if (!text.p)
        return check_unscored("no_memory");
    uint32_t n = make_variants(c, text, item->arena, variant);
    for (size_t i = 0; i < a.n; i++) {
        if (check_is_late(item))
            return check_unscored("inconclusive");
        count[check_one(c, &a, i, variant, n, item, &reason)]++;
    }
    return judge(c, count[CONSTRAINT_FOLLOWED], count[CONSTRAINT_BROKEN], a.n, reason);
}

const struct check_ops CHECK_CONSTRAINTS = {
    .kind = "constraints",
    .code_version = 1,
    .summary = "follows the verifiable instructions of the request's metadata",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = constraints_open,
    .run = constraints_run,
    .close = constraints_close,
};
