/* verifier/constraints/pieces.h - inside of verifier/constraints: a text in pieces, and the
 * instructions. Character means code point; lists and new texts live in the constraint's arena;
 * when memory is out they are empty and c->no_memory says so. */
#ifndef VERIFIER_CONSTRAINTS_PIECES_H
#define VERIFIER_CONSTRAINTS_PIECES_H

#include "verifier/constraints/constraint.h"
#include "verifier/text/language.h"
#include "verifier/text/text.h"

enum { ARGUMENTS = 5 };
enum argument_type { ARGUMENT_NONE, ARGUMENT_COUNT, ARGUMENT_TEXT, ARGUMENT_TEXTS };

struct list {
    struct str *item;
    size_t n;
};

struct argument {
    int64_t n;        /* COUNT */
    struct str text;  /* TEXT */
    struct list list; /* TEXTS */
};

struct constraint {
    struct str text; /* not empty but for white space; valid UTF-8 */
    struct argument arg[ARGUMENTS];
    const struct check_item *item;
    const struct language *language;
    struct arena *arena;
    bool no_memory;
    const char *unscored; /* set by an instruction that cannot tell */
};

typedef bool instruction_fn(struct constraint *c); /* true: followed */

#define PIECES_PUNCTUATION "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

/* Without ASCII punctuation. */
struct str pieces_bare(struct constraint *c, struct str s);
struct str pieces_lower(struct constraint *c, struct str s); /* simple mapping, per character */
struct str pieces_ascii(struct constraint *c, struct str s); /* accents and other scripts go */
/* ASCII characters of the set at both ends go. */
struct str pieces_strip(struct str s, const char *set);
struct str pieces_strip_left(struct str s, const char *set);
struct str pieces_strip_right(struct str s, const char *set);
struct list pieces_words(struct constraint *c, struct str s); /* by white space */
struct list pieces_split(struct constraint *c, struct str s, struct str separator);
struct list pieces_lines(struct constraint *c, struct str s);        /* by \n */
struct list pieces_filled_lines(struct constraint *c, struct str s); /* not only white space */
struct list pieces_sentences(struct constraint *c, struct str s);    /* sentences.c */
struct list pieces_tokens(struct constraint *c, struct str s);       /* tokens.c */
size_t pieces_count(struct str s, struct str needle);                /* without overlaps */
/* Runs of such characters; combining marks go with what they stand behind. */
size_t pieces_count_runs(struct str s, bool (*is_in)(uint32_t cp));
uint32_t pieces_char(struct str s, size_t index); /* 0 when there is none */
/* s in alphabetical order of bytes, equal ones once. */
size_t pieces_sort_unique(struct list *l);
bool pieces_holds(struct str s, const char *needle);
bool pieces_is_one_of(struct str s, const char *words); /* words: " a b c " */
/* Not inside a longer word. */
bool pieces_holds_word(struct str s, struct str word);

bool is_word_char(uint32_t cp);  /* letter, number, underscore */
bool is_mark_char(uint32_t cp);  /* combines with the character before it */
bool is_digit_char(uint32_t cp); /* decimal digit of any script */
bool is_upper_char(uint32_t cp);
bool is_lower_char(uint32_t cp);
/* Some letter with case, and all of them of the one: is_upper_char or is_lower_char. */
bool pieces_is_of_case(struct str s, bool (*is_wanted)(uint32_t cp));

/* counts.c, sentence_rules.c */
instruction_fn word_count_range, unique_word_count, stop_word_share, conjunctions, person_names,
    trigram_overlap, number_count, punctuation_cover, pronouns, words_japanese;
instruction_fn sentence_type_ratio, sentence_type_balance, sentence_lengths, sentence_keyword,
    sentence_increment, alliteration_increment, emoji_ends, last_word_first, keyword_position,
    words_position;
/* words.c */
instruction_fn alphabet_loop, three_vowels, consonant_clusters, palindromes, prime_lengths,
    word_repeats, first_letters_differ, paragraph_last_first, title_case, no_whitespace;
/* formats.c */
instruction_fn nested_parentheses, nested_quotes, options, word_a_line, line_indent, quote_unquote,
    list_marker, italics_thesis, sub_bullets, text_then_bullets, output_template;
/* customs.c */
instruction_fn multiples_of_seven, choice_questions, reverse_lines, reversed_words,
    reversed_letters, alphabet_sentences, capitals_by_latitude, csv_cities, csv_special, csv_quoted,
    date_list, keywords_multiple, repeat_change, repeat_simple, repeat_span;
/* keywords.c, structure.c */
instruction_fn keyword_existence, keyword_frequency, forbidden_words, letter_frequency,
    response_language, number_sentences, number_words, capital_words, english_capital,
    english_lowercase, no_comma, end_phrase, quotation, repeat_prompt;
instruction_fn number_paragraphs, paragraph_first_word, bracketed_gaps, postscript, bullet_lists,
    constrained_response, highlights, sections, json_only, title, two_responses;

#endif
