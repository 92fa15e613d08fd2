/* choice: the letter that the output gives as its answer is the reference. Linear.
 *
 * In order: the last \boxed{}, behind the last "answer is" or "answer:", the last
 * that is said to be right, the beginning of the text,
 * the last letter in brackets, a letter alone at the end; without any, the text of a choice. */
#include "verifier/check.h"
#include "verifier/math/answer.h"
#include "verifier/text/letter.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct choice {
    struct str field, choices_field, reference;
    int64_t letters;
};

#define AT(field) offsetof(struct choice, field)
static const struct option OPTIONS[] = {
    {"reference", OPTION_TEXT, AT(reference), 0, 0, NULL, "the right letter, else metadata"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field that holds the letter"},
    {"choices_field", OPTION_TEXT, AT(choices_field), 0, 0, NULL,
     "metadata field with the texts of the choices, in order"},
    {"letters", OPTION_INT, AT(letters), 2, 26, NULL, "how many letters there are, from A on"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void choice_close(void *state)
{
    free(state);
}

static int choice_open(void **state, const struct json_at *params, struct err *e)
{
    struct choice *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    c->field = STR("reference");
    c->choices_field = STR("choices");
    c->letters = 10;
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, c, e);
    if (rc == ERR_OK && c->reference.n && !letter_alone(c->reference, 26))
        rc = err_set(e, ERR_INVALID, "reference: found '" STR_FMT "', allowed: a letter",
                     STR_ARG(str_slice(c->reference, 0, 40)));
    if (rc != ERR_OK) {
        choice_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

/* The letter of the reference; 0 when there is none. */
static char wanted_letter(const struct choice *c, const struct check_item *item)
{
    if (c->reference.n)
        return letter_alone(c->reference, 26);
    const json_t *v = check_metadata(item, c->field.p);
    if (!json_is_string(v))
        return 0;
    return letter_alone((struct str){json_string_value(v), json_string_length(v)}, 26);
}

/* The letter of the one choice whose text the answer is; 0 when it is none. */
static char letter_of_text(const struct choice *c, const struct check_item *item)
{
    const unsigned forms = TEXT_FOLD_CASE | TEXT_COMPATIBLE | TEXT_ONE_SPACE | TEXT_PLAIN_ENDS;
    const json_t *choices = check_metadata(item, c->choices_field.p), *one;
    struct str answer;
    size_t i;
    if (!json_is_array(choices) ||
        math_answer(item->output->text, item->arena, &answer) != MATH_ANSWER_FOUND ||
        answer.n > CHECK_TEXT_MAX_BYTES)
        return 0;
    struct str got = text_form(answer, forms, item->arena);
    for (i = 0; got.p && i < json_array_size(choices) && i < 26; i++) {
        one = json_array_get(choices, i);
        struct str text = json_is_string(one) ? str_from(json_string_value(one)) : STR("");
        struct str form = text_form(text, forms, item->arena);
        if (form.n && str_eq(form, got))
            return (char)('A' + i);
    }
    return 0;
}

static struct check_verdict choice_run(const void *state, const struct check_item *item)
{
    const struct choice *c = state;
    char want = wanted_letter(c, item);
    if (!want)
        return check_unscored(c->reference.n || check_metadata(item, c->field.p) ? "bad_reference"
                                                                                 : "no_reference");
    char got = letter_stated(item->output->text, (int)c->letters);
    if (!got)
        got = letter_of_text(c, item);
    return check_pass_if(got == want, got ? "different" : "no_letter");
}

const struct check_ops CHECK_CHOICE = {
    .kind = "choice",
    .code_version = 2,
    .summary = "the stated answer letter is the reference",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = choice_open,
    .run = choice_run,
    .close = choice_close,
};
