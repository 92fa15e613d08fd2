/* math: the answer that the output states is equivalent to the reference. The text is passed over
 * once; what is parsed is at most some kilobytes, and the comparison has a budget of steps. */
#include "verifier/check.h"
#include "verifier/math/answer.h"
#include "verifier/math/equal.h"

#include <stdlib.h>

struct math {
    struct cfg_text_list reference;
    struct str field;
    int64_t round;
    struct arena arena;
};

#define AT(field) offsetof(struct math, field)
static const struct option OPTIONS[] = {
    {"reference", OPTION_TEXTS, AT(reference), 0, 0, NULL, "accepted answers, else metadata"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field that holds the answers"},
    {"round", OPTION_INT, AT(round), -1, 15, NULL,
     "decimals to round to before comparing; -1 compares exactly"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void math_close(void *state)
{
    struct math *m = state;
    if (m)
        arena_free(&m->arena);
    free(m);
}

static int math_open(void **state, const struct json_at *params, struct err *e)
{
    struct math *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&m->arena, 256 * KiB);
    m->field = STR("reference");
    m->round = -1;
    int rc = options_read(OPTIONS, OPTIONS_N, params, &m->arena, m, e);
    if (rc != ERR_OK) {
        math_close(m);
        return rc;
    }
    *state = m;
    return ERR_OK;
}

static struct str reference_text(const json_t *v, struct arena *a)
{
    if (json_is_string(v))
        return (struct str){json_string_value(v), json_string_length(v)};
    if (json_is_integer(v))
        return arena_printf(a, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return json_is_real(v) ? arena_printf(a, "%.15g", json_real_value(v)) : (struct str){0};
}

struct tally {
    bool is_same, is_undecided, has_reference;
};

static void compare_one(const struct math *m, const struct check_item *item, struct str reference,
                        struct str got, struct tally *t)
{
    struct str want;
    if (reference.p && math_same_words(reference, got, item->arena)) {
        t->has_reference = t->is_same = true;
        return;
    }
    if (!reference.p || math_answer(reference, item->arena, &want) != MATH_ANSWER_FOUND)
        return;
    t->has_reference = true;
    enum math_verdict v = math_equal(want, got, (int)m->round, item->arena);
    t->is_same = t->is_same || v == MATH_SAME;
    t->is_undecided = t->is_undecided || v == MATH_UNDECIDED;
}

static struct check_verdict verdict_of(const struct tally *t, enum math_found found, size_t n)
{
    if (!t->has_reference)
        return check_unscored(n ? "bad_reference" : "no_reference");
    if (found != MATH_ANSWER_FOUND)
        return check_pass_if(false, found == MATH_ANSWER_NONE ? "no_answer" : "open_box");
    if (!t->is_same && t->is_undecided)
        return check_unscored("inconclusive");
    return check_pass_if(t->is_same, "different");
}

static struct check_verdict math_run(const void *state, const struct check_item *item)
{
    const struct math *m = state;
    const json_t *v = m->reference.n ? NULL : check_metadata(item, m->field.p);
    size_t n = m->reference.n ? m->reference.n : json_is_array(v) ? json_array_size(v) : v != NULL;
    struct str got = STR("");
    struct tally t = {0};
    enum math_found found = math_answer(item->output->text, item->arena, &got);
    for (size_t i = 0; i < n && i < OPTION_MAX_TEXTS && !t.is_same; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        struct str reference = v ? reference_text(one, item->arena) : m->reference.item[i];
        compare_one(m, item, reference, got, &t);
        if (check_is_late(item))
            return check_unscored("timeout");
    }
    return verdict_of(&t, found, n);
}

const struct check_ops CHECK_MATH = {
    .kind = "math",
    .code_version = 3,
    .summary = "the stated answer is mathematically equivalent to the reference",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = math_open,
    .run = math_run,
    .close = math_close,
};
