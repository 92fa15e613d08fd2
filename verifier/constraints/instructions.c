/* The one table of instructions: id, what decides it, its arguments. Arguments are read and checked
 * here, so that an instruction finds them in order. An id that is not here is
 * "unknown_instruction": never a silent pass. */
#include "verifier/constraints/pieces.h"

#include "common/buf.h"

#include <string.h>

enum { TEXTS_MAX = 256, ARENA_MAX_MIB = 192, COUNT_MAX = 1 << 20 };

struct instruction {
    const char *id;
    instruction_fn *run; /* NULL: known, but not to be decided here */
    struct {
        const char *name;
        enum argument_type type;
        bool is_optional;
    } arg[ARGUMENTS];
};

#define COUNT(name)                                                                                \
    {                                                                                              \
        name, ARGUMENT_COUNT, false                                                                \
    }
#define TEXT(name)                                                                                 \
    {                                                                                              \
        name, ARGUMENT_TEXT, false                                                                 \
    }
#define TEXTS(name)                                                                                \
    {                                                                                              \
        name, ARGUMENT_TEXTS, false                                                                \
    }
#define RELATION(name)                                                                             \
    {                                                                                              \
        name, ARGUMENT_TEXT, true                                                                  \
    }

static const struct instruction INSTRUCTIONS[] = {
    /* IFEval */
    {"keywords:existence", keyword_existence, {TEXTS("keywords")}},
    {"keywords:frequency",
     keyword_frequency,
     {TEXT("keyword"), COUNT("frequency"), RELATION("relation")}},
    {"keywords:forbidden_words", forbidden_words, {TEXTS("forbidden_words")}},
    {"keywords:letter_frequency",
     letter_frequency,
     {TEXT("letter"), COUNT("let_frequency"), RELATION("let_relation")}},
    {"language:response_language", response_language, {TEXT("language")}},
    {"length_constraints:number_sentences",
     number_sentences,
     {COUNT("num_sentences"), RELATION("relation")}},
    {"length_constraints:number_paragraphs", number_paragraphs, {COUNT("num_paragraphs")}},
    {"length_constraints:number_words", number_words, {COUNT("num_words"), RELATION("relation")}},
    {"length_constraints:nth_paragraph_first_word",
     paragraph_first_word,
     {COUNT("num_paragraphs"), COUNT("nth_paragraph"), TEXT("first_word")}},
    {"detectable_content:number_place"
     "holders",
     bracketed_gaps,
     {COUNT("num_place"
            "holders")}},
    {"detectable_content:postscript", postscript, {TEXT("postscript_marker")}},
    {"detectable_format:number_bullet_lists", bullet_lists, {COUNT("num_bullets")}},
    {"detectable_format:constrained_response", constrained_response, {{0}}},
    {"detectable_format:number_highlighted_sections", highlights, {COUNT("num_highlights")}},
    {"detectable_format:multiple_sections",
     sections,
     {TEXT("section_spliter"), COUNT("num_sections")}},
    {"detectable_format:json_format", json_only, {{0}}},
    {"detectable_format:title", title, {{0}}},
    {"combination:two_responses", two_responses, {{0}}},
    {"combination:repeat_prompt", repeat_prompt, {TEXT("prompt_to_repeat")}},
    {"startend:end_checker", end_phrase, {TEXT("end_phrase")}},
    {"startend:quotation", quotation, {{0}}},
    {"change_case:capital_word_frequency",
     capital_words,
     {COUNT("capital_frequency"), RELATION("capital_relation")}},
    {"change_case:english_capital", english_capital, {{0}}},
    {"change_case:english_lowercase", english_lowercase, {{0}}},
    {"punctuation:no_comma", no_comma, {{0}}},
    /* IFBench */
    {"count:word_count_range", word_count_range, {COUNT("min_words"), COUNT("max_words")}},
    {"count:unique_word_count", unique_word_count, {COUNT("N")}},
    {"count:conjunctions", conjunctions, {COUNT("small_n")}},
    {"count:person_names", person_names, {COUNT("N")}},
    {"count:numbers", number_count, {COUNT("N")}},
    {"count:punctuation", punctuation_cover, {{0}}},
    {"count:pronouns", pronouns, {COUNT("N")}},
    {"count:words_japanese", words_japanese, {COUNT("N")}},
    {"count:keywords_multiple",
     keywords_multiple,
     {TEXT("keyword1"), TEXT("keyword2"), TEXT("keyword3"), TEXT("keyword4"), TEXT("keyword5")}},
    {"ratio:stop_words", stop_word_share, {COUNT("percentage")}},
    {"ratio:sentence_type", sentence_type_ratio, {{0}}},
    {"ratio:sentence_balance", sentence_type_balance, {{0}}},
    {"ratio:overlap", trigram_overlap, {TEXT("reference_text"), COUNT("percentage")}},
    {"ratio:sentence_words", sentence_lengths, {{0}}},
    {"words:alphabet", alphabet_loop, {{0}}},
    {"words:vowel", three_vowels, {{0}}},
    {"words:consonants", consonant_clusters, {{0}}},
    {"words:palindrome", palindromes, {{0}}},
    {"words:prime_lengths", prime_lengths, {{0}}},
    {"words:repeats", word_repeats, {COUNT("small_n")}},
    {"words:start_verb", NULL, {{0}}},         /* needs a part-of-speech tagger */
    {"words:odd_even_syllables", NULL, {{0}}}, /* needs a pronouncing dictionary */
    {"words:last_first", last_word_first, {{0}}},
    {"words:paragraph_last_first", paragraph_last_first, {{0}}},
    {"words:no_consecutive", first_letters_differ, {{0}}},
    {"words:keywords_specific_position",
     keyword_position,
     {TEXT("keyword"), COUNT("n"), COUNT("m")}},
    {"words:words_position", words_position, {TEXT("keyword")}},
    {"sentence:alliteration_increment", alliteration_increment, {{0}}},
    {"sentence:keyword", sentence_keyword, {TEXT("word"), COUNT("N")}},
    {"sentence:increment", sentence_increment, {COUNT("small_n")}},
    {"format:parentheses", nested_parentheses, {{0}}},
    {"format:quotes", nested_quotes, {{0}}},
    {"format:options", options, {TEXT("options")}},
    {"format:newline", word_a_line, {{0}}},
    {"format:emoji", emoji_ends, {{0}}},
    {"format:line_indent", line_indent, {{0}}},
    {"format:quote_unquote", quote_unquote, {{0}}},
    {"format:list", list_marker, {TEXT("sep")}},
    {"format:thesis", italics_thesis, {{0}}},
    {"format:sub-bullets", sub_bullets, {{0}}},
    {"format:no_bullets_bullets", text_then_bullets, {{0}}},
    {"format:title_case", title_case, {{0}}},
    {"format:output_template", output_template, {{0}}},
    {"format:no_whitespace", no_whitespace, {{0}}},
    {"custom:multiples", multiples_of_seven, {{0}}},
    {"custom:mcq_count_length", choice_questions, {{0}}},
    {"custom:reverse_newline", reverse_lines, {{0}}},
    {"custom:word_reverse", reversed_words, {{0}}},
    {"custom:character_reverse", reversed_letters, {{0}}},
    {"custom:sentence_alphabet", alphabet_sentences, {{0}}},
    {"custom:european_capitals_sort", capitals_by_latitude, {{0}}},
    {"custom:csv_city", csv_cities, {{0}}},
    {"custom:csv_special_character", csv_special, {{0}}},
    {"custom:csv_quotes", csv_quoted, {{0}}},
    {"custom:date_format_list", date_list, {{0}}},
    {"repeat:repeat_change", repeat_change, {TEXT("prompt_to_repeat")}},
    {"repeat:repeat_simple", repeat_simple, {{0}}},
    {"repeat:repeat_span",
     repeat_span,
     {TEXT("prompt_to_repeat"), COUNT("n_start"), COUNT("n_end")}},
};
enum { INSTRUCTIONS_N = sizeof INSTRUCTIONS / sizeof INSTRUCTIONS[0] };

size_t constraint_count(void)
{
    return INSTRUCTIONS_N;
}

const char *constraint_name(size_t i)
{
    return INSTRUCTIONS[i].id;
}

static bool read_count(const json_t *v, int64_t *out)
{
    double d = json_number_value(v);
    if (!json_is_number(v) || d < 0 || d > COUNT_MAX || d != (double)(int64_t)d)
        return false;
    *out = (int64_t)d;
    return true;
}

static bool read_text(const json_t *v, struct str *out)
{
    *out = (struct str){json_string_value(v), json_string_length(v)};
    return json_is_string(v) && out->n > 0;
}

static bool read_texts(struct constraint *c, const json_t *v, struct list *out)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n == 0 || n > TEXTS_MAX)
        return false;
    out->item = arena_array(c->arena, n, sizeof *out->item);
    c->no_memory = c->no_memory || !out->item;
    for (; out->item && out->n < n; out->n++)
        if (!read_text(json_array_get(v, out->n), &out->item[out->n]))
            return false;
    return true;
}

static bool read_argument(struct constraint *c, const struct instruction *k, int i,
                          const json_t *kwargs)
{
    const json_t *v = json_object_get(kwargs, k->arg[i].name);
    struct argument *to = &c->arg[i];
    if (!v || json_is_null(v))
        return k->arg[i].is_optional;
    if (k->arg[i].type == ARGUMENT_COUNT)
        return read_count(v, &to->n);
    return k->arg[i].type == ARGUMENT_TEXT ? read_text(v, &to->text) : read_texts(c, v, &to->list);
}

static enum constraint_outcome run(struct constraint *c, const struct instruction *k,
                                   const json_t *kwargs, const char **reason)
{
    for (int i = 0; i < ARGUMENTS && k->arg[i].type != ARGUMENT_NONE; i++) {
        if (!read_argument(c, k, i, kwargs)) {
            *reason = c->no_memory ? "no_memory" : "bad_arguments";
            return CONSTRAINT_UNSCORED;
        }
    }
    bool is_followed = text_trim(c->text).n > 0 && k->run(c);
    *reason = c->no_memory ? "no_memory" : c->unscored;
    if (*reason)
        return CONSTRAINT_UNSCORED;
    return is_followed ? CONSTRAINT_FOLLOWED : CONSTRAINT_BROKEN;
}

static const struct instruction *find(struct str id)
{
    for (int i = 0; i < INSTRUCTIONS_N; i++)
        if (str_eq_c(id, INSTRUCTIONS[i].id))
            return &INSTRUCTIONS[i];
    return NULL;
}

enum constraint_outcome constraint_check(struct str id, const json_t *kwargs, struct str text,
                                         const struct check_item *item,
                                         const struct language *language, const char **reason)
{
    const struct instruction *k = find(id);
    struct arena arena;
    if (!k || !k->run) {
        *reason = k ? "unsupported_instruction" : "unknown_instruction";
        return CONSTRAINT_UNSCORED;
    }
    arena_init(&arena, ARENA_MAX_MIB * MiB);
    struct constraint c = {.text = text, .item = item, .language = language, .arena = &arena};
    enum constraint_outcome outcome = run(&c, k, kwargs, reason);
    arena_free(&arena);
    return outcome;
}
