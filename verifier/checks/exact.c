/* exact: the output, or one part of it, equals the reference (or one of several). Linear. */
#include "verifier/check.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct exact {
    struct cfg_text_list reference;
    struct str field;
    int scope;
    bool ignore_case, normalise;
    struct arena arena;
};

enum { SCOPE_WHOLE, SCOPE_FIRST_LINE, SCOPE_LAST_LINE, SCOPE_FIRST_WORD, SCOPE_LAST_WORD };
static const char *const SCOPES[] = {"whole",      "first_line", "last_line",
                                     "first_word", "last_word",  NULL};
#define AT(field) offsetof(struct exact, field)
static const struct option OPTIONS[] = {
    {"reference", OPTION_TEXTS, AT(reference), 0, 0, NULL, "accepted answers, else metadata"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field that holds the answers"},
    {"scope", OPTION_ENUM, AT(scope), 0, 0, SCOPES, "which part of the output is compared"},
    {"ignore_case", OPTION_BOOL, AT(ignore_case), 0, 0, NULL, "compare after case folding"},
    {"normalise", OPTION_BOOL, AT(normalise), 0, 0, NULL,
     "NFKC, case folding, single spaces, no quotes or stops at the ends"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void exact_close(void *state)
{
    struct exact *x = state;
    if (x)
        arena_free(&x->arena);
    free(x);
}

static int exact_open(void **state, const struct json_at *params, struct err *e)
{
    struct exact *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&x->arena, 256 * KiB);
    x->field = STR("reference");
    int rc = options_read(OPTIONS, OPTIONS_N, params, &x->arena, x, e);
    if (rc != ERR_OK) {
        exact_close(x);
        return rc;
    }
    *state = x;
    return ERR_OK;
}

static struct str line_with_text(struct str s, bool is_last)
{
    struct str line, best = STR("");
    while (str_split(&s, '\n', &line)) {
        line = text_trim(line);
        if (line.n)
            best = line;
        if (line.n && !is_last)
            break;
    }
    return best;
}

static struct str word_of(struct str s, bool is_last)
{
    struct str word, best = STR("");
    while (text_next_word(&s, &word)) {
        best = word;
        if (!is_last)
            break;
    }
    return best;
}

static struct str scoped(const struct exact *x, struct str s)
{
    if (x->scope == SCOPE_FIRST_LINE || x->scope == SCOPE_LAST_LINE)
        return line_with_text(s, x->scope == SCOPE_LAST_LINE);
    if (x->scope == SCOPE_FIRST_WORD || x->scope == SCOPE_LAST_WORD)
        return word_of(s, x->scope == SCOPE_LAST_WORD);
    return text_trim(s);
}

static struct str comparable(const struct exact *x, struct str s, struct arena *a)
{
    unsigned forms = x->ignore_case ? TEXT_FOLD_CASE : 0;
    if (x->normalise)
        forms |= TEXT_FOLD_CASE | TEXT_COMPATIBLE | TEXT_ONE_SPACE | TEXT_PLAIN_ENDS;
    return text_form(text_trim(s), forms, a);
}

/* Texts as they are; numbers and booleans of the metadata as JSON writes them. */
static struct str reference_text(const json_t *v, struct arena *a)
{
    if (json_is_string(v))
        return (struct str){json_string_value(v), json_string_length(v)};
    if (json_is_integer(v))
        return arena_printf(a, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    if (json_is_real(v))
        return arena_printf(a, "%.17g", json_real_value(v));
    return json_is_boolean(v) ? str_from(json_is_true(v) ? "true" : "false") : (struct str){0};
}

static bool equals(const struct exact *x, struct str got, struct str want, struct arena *a)
{
    struct str form = want.p ? comparable(x, want, a) : (struct str){0};
    return form.p && str_eq(got, form);
}

static struct check_verdict exact_run(const void *state, const struct check_item *item)
{
    const struct exact *x = state;
    const json_t *v = x->reference.n ? NULL : check_metadata(item, x->field.p);
    size_t n = x->reference.n ? x->reference.n : json_is_array(v) ? json_array_size(v) : v != NULL;
    if (n == 0 || json_is_object(v))
        return check_unscored("no_reference");
    struct str part = scoped(x, item->output->text);
    if (part.n > CHECK_TEXT_MAX_BYTES || n > OPTION_MAX_TEXTS)
        return check_unscored("inconclusive");
    struct str got = comparable(x, part, item->arena);
    if (!got.p)
        return check_unscored("no_memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        struct str want = v ? reference_text(one, item->arena) : x->reference.item[i];
        if (equals(x, got, want, item->arena))
            return check_pass_if(true, "");
    }
    return check_pass_if(false, "different");
}

const struct check_ops CHECK_EXACT = {
    .kind = "exact",
    .code_version = 1,
    .summary = "the output or one part of it equals the reference",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = exact_open,
    .run = exact_run,
    .close = exact_close,
};
