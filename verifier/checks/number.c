/* number: the number the output states as its answer equals the reference. Linear. */
#include "verifier/check.h"
#include "verifier/text/numeral.h"

#include <stdlib.h>

struct number {
    double tolerance;
    bool percent_is_fraction;
    struct str field, reference_text;
};

#define AT(field) offsetof(struct number, field)
static const struct option OPTIONS[] = {
    {"reference", OPTION_TEXT, AT(reference_text), 0, 0, NULL, "the right number, else metadata"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field that holds it"},
    {"tolerance", OPTION_REAL, AT(tolerance), 0, 1e300, NULL, "largest difference that passes"},
    {"percent_is_fraction", OPTION_BOOL, AT(percent_is_fraction), 0, 0, NULL,
     "50% means 0.5; else the sign is ignored"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void number_close(void *state)
{
    free(state);
}

static int check_reference(const struct number *n, struct err *e)
{
    struct arena a;
    arena_init(&a, 64 * KiB);
    struct numeral found;
    int rc = ERR_OK;
    if (n->reference_text.n && !numeral_stated(n->reference_text, &a, &found))
        rc = err_set(e, ERR_INVALID, "reference: found '" STR_FMT "', allowed: a number",
                     STR_ARG(str_slice(n->reference_text, 0, 40)));
    arena_free(&a);
    return rc;
}

static int number_open(void **state, const struct json_at *params, struct err *e)
{
    struct number *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    n->field = STR("reference");
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, n, e);
    if (rc == ERR_OK)
        rc = check_reference(n, e);
    if (rc != ERR_OK) {
        number_close(n);
        return rc;
    }
    *state = n;
    return ERR_OK;
}

/* The reference as text: a number of the metadata is written out. p NULL when there is none. */
static struct str reference_text(const struct number *n, const struct check_item *item)
{
    if (n->reference_text.n)
        return n->reference_text;
    const json_t *v = check_metadata(item, n->field.p);
    if (json_is_string(v))
        return (struct str){json_string_value(v), json_string_length(v)};
    if (json_is_integer(v))
        return arena_printf(item->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return json_is_real(v) ? arena_printf(item->arena, "%.15g", json_real_value(v))
                           : (struct str){0};
}

static void read_percent(const struct number *n, struct numeral *x)
{
    if (!n->percent_is_fraction || !x->is_percent)
        return;
    x->value /= 100;
    x->is_exact = false;
}

static struct check_verdict number_run(const void *state, const struct check_item *item)
{
    const struct number *n = state;
    struct numeral want, got;
    struct str reference = reference_text(n, item);
    if (!reference.p)
        return check_unscored("no_reference");
    if (!numeral_stated(reference, item->arena, &want))
        return check_unscored("bad_reference");
    if (!numeral_stated(item->output->text, item->arena, &got))
        return check_pass_if(false, "no_number");
    read_percent(n, &want);
    read_percent(n, &got);
    struct check_verdict v = check_pass_if(numeral_equal(&got, &want, n->tolerance), "different");
    v.measure = got.value;
    return v;
}

const struct check_ops CHECK_NUMBER = {
    .kind = "number",
    .code_version = 2,
    .summary = "the last stated number equals the reference",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = number_open,
    .run = number_run,
    .close = number_close,
};
