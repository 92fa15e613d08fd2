/* Instructions about given words, letters, case and the ends of the text (IFEval). Words are
 * compared as texts without case: they come from a request and are never taken for patterns. */
#include "verifier/constraints/pieces.h"

#include <string.h>

/* arg[at] is the number, arg[at + 1] says "less than" or "at least" (the default). */
static bool compares(struct constraint *c, size_t n, int at)
{
    struct str relation = c->arg[at + 1].text;
    if (relation.n == 0 || str_eq_c(relation, "at least"))
        return (int64_t)n >= c->arg[at].n;
    if (str_eq_c(relation, "less than"))
        return (int64_t)n < c->arg[at].n;
    c->unscored = "bad_arguments";
    return false;
}

bool keyword_existence(struct constraint *c)
{
    struct str low = pieces_lower(c, c->text);
    for (size_t i = 0; i < c->arg[0].list.n; i++)
        if (str_find(low, pieces_lower(c, c->arg[0].list.item[i]), 0) < 0)
            return false;
    return true;
}

bool keyword_frequency(struct constraint *c)
{
    struct str word = pieces_lower(c, text_trim(c->arg[0].text));
    return compares(c, pieces_count(pieces_lower(c, c->text), word), 1);
}

bool forbidden_words(struct constraint *c)
{
    struct str low = pieces_lower(c, c->text);
    for (size_t i = 0; i < c->arg[0].list.n; i++)
        if (pieces_holds_word(low, pieces_lower(c, c->arg[0].list.item[i])))
            return false;
    return true;
}

bool letter_frequency(struct constraint *c)
{
    struct str letter = pieces_lower(c, c->arg[0].text);
    return compares(c, pieces_count(pieces_lower(c, c->text), letter), 1);
}

static bool is_in_language(struct constraint *c, struct str code)
{
    enum language_answer is = language_is(c->language, c->text, code);
    if (!language_is_known(code) || is == LANGUAGE_UNSURE)
        c->unscored = "unknown_language";
    return is == LANGUAGE_YES;
}

bool response_language(struct constraint *c)
{
    return is_in_language(c, c->arg[0].text);
}

bool number_sentences(struct constraint *c)
{
    return compares(c, pieces_sentences(c, c->text).n, 0);
}

bool number_words(struct constraint *c)
{
    return compares(c, pieces_count_runs(c->text, is_word_char), 0);
}

bool capital_words(struct constraint *c)
{
    struct list tokens = pieces_tokens(c, c->text);
    size_t n = 0;
    for (size_t i = 0; i < tokens.n; i++)
        n += pieces_is_of_case(tokens.item[i], is_upper_char);
    return compares(c, n, 0);
}

bool english_capital(struct constraint *c)
{
    return pieces_is_of_case(c->text, is_upper_char) && is_in_language(c, STR("en"));
}

bool english_lowercase(struct constraint *c)
{
    return pieces_is_of_case(c->text, is_lower_char) && is_in_language(c, STR("en"));
}

bool no_comma(struct constraint *c)
{
    return !pieces_holds(c->text, ",");
}

bool end_phrase(struct constraint *c)
{
    struct str s = pieces_strip(text_trim(c->text), "\"");
    return str_ends(pieces_lower(c, s), pieces_lower(c, text_trim(c->arg[0].text)));
}

bool quotation(struct constraint *c)
{
    struct str s = text_trim(c->text);
    return s.n > 1 && s.p[0] == '"' && s.p[s.n - 1] == '"';
}

bool repeat_prompt(struct constraint *c)
{
    struct str s = pieces_lower(c, text_trim(c->text));
    return str_starts(s, pieces_lower(c, text_trim(c->arg[0].text)));
}
