/* The pre-splits of the byte-level models, as the tokenizer.json files of their authors give them.
 *
 * PCRE2's tables are those of Unicode 14; the reference (Hugging Face tokenizers 0.23) classifies
 * by Unicode 16, and digits by 17. The code points assigned in between are added by hand, so that
 * both agree on every code point; with a newer PCRE2 the additions change nothing. White space is
 * spelled out, because \s of PCRE2 holds U+180E, which has not been white space since Unicode 6.3.
 * Every expression covers all text and backtracks over one run at most: time is linear. */
#include "engine/text/pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

#define SPACE "\\x09-\\x0D\\x{85}\\p{Z}"
#define LETTERS_15_16                                                                              \
    "\\x{1C89}\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}"                \
    "\\x{10D4A}-\\x{10D65}\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}\\x{11240}"          \
    "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}" \
    "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"          \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-\\x{16D6C}"         \
    "\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}"                     \
    "\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}"          \
    "\\x{31350}-\\x{323AF}"
#define NUMBERS_15_16                                                                              \
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}"         \
    "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}"         \
    "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
#define NUMBERS_17 "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

#define L   "\\p{L}" LETTERS_15_16
#define N   "\\p{N}" NUMBERS_15_16
#define N17 N NUMBERS_17

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"

/* Llama 3 and Qwen2 differ in how many digits make a word. */
#define LINES_SPLIT(digits)                                                                        \
    "(?i:" CONTRACTIONS ")|[^\\r\\n" L N "]?[" L "]+|[" N "]" digits "| ?[^" SPACE L N             \
    "]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

struct split {
    const char *names; /* separated by one space */
    const char *regex;
    bool is_whole_word_first;
    bool is_bos_default;
};

static const struct split SPLITS[] = {
    {.names = "gpt-2 default",
     .regex = CONTRACTIONS "| ?[" L "]+| ?[" N "]+| ?[^" SPACE L N "]+|[" SPACE "]+(?![^" SPACE
                           "])|[" SPACE "]+"},
    {.names = "llama-bpe llama3 llama-v3",
     .regex = LINES_SPLIT("{1,3}"),
     .is_whole_word_first = true,
     .is_bos_default = true},
    {.names = "qwen2 deepseek-r1-qwen", .regex = LINES_SPLIT("")},
    /* Every digit is cut out first, then what is left is split as gpt-2 does. In one expression: a
     * digit takes no space before it, and white space before a digit ends its piece. */
    {.names = "smollm starcoder",
     .regex = CONTRACTIONS "| ?[" L "]+|[" N17 "]| ?[^" SPACE L N17 "]+|[" SPACE "]+(?![^" SPACE N17
                           "])|[" SPACE "]+"},
};

struct pretok {
    const struct split *split;
    pcre2_code *code;
    pcre2_match_context *limits;
};

static bool is_named(const struct split *s, struct str name)
{
    struct str rest = str_from(s->names), known;
    while (str_split(&rest, ' ', &known))
        if (str_eq(known, name))
            return true;
    return false;
}

static const struct split *find_split(struct str name)
{
    for (size_t i = 0; i < sizeof SPLITS / sizeof *SPLITS; i++)
        if (is_named(&SPLITS[i], name))
            return &SPLITS[i];
    return NULL;
}

int pretok_open(struct pretok **out, struct str name, struct err *e)
{
    *out = NULL;
    const struct split *split = find_split(name);
    if (!split)
        return err_set(e, ERR_UNSUPPORTED,
                       "tokenizer.ggml.pre: '" STR_FMT "' is not known; known are %s %s %s %s",
                       STR_ARG(str_slice(name, 0, 40)), SPLITS[0].names, SPLITS[1].names,
                       SPLITS[2].names, SPLITS[3].names);
    struct pretok *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory for the pre-split");
    int code = 0;
    PCRE2_SIZE at = 0;
    p->split = split;
    p->code = pcre2_compile((PCRE2_SPTR)split->regex, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (!p->code || !p->limits) {
        pretok_close(p);
        return err_set(e, ERR_BUG, "pre-split %s: PCRE2 error %d at %zu", split->names, code, at);
    }
    /* The limit stops a defect, not a text: one run of white space may be as long as the text. */
    pcre2_set_match_limit(p->limits, 1u << 31);
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it the interpreter does the same */
    *out = p;
    return ERR_OK;
}

void pretok_close(struct pretok *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    free(p);
}

bool pretok_is_whole_word_first(const struct pretok *p)
{
    return p->split->is_whole_word_first;
}

bool pretok_is_bos_default(const struct pretok *p)
{
    return p->split->is_bos_default;
}

int pretok_scan_open(struct pretok_scan *s, const struct pretok *p, struct err *e)
{
    *s = (struct pretok_scan){.pretok = p, .match = pcre2_match_data_create(1, NULL)};
    return s->match ? ERR_OK : err_set(e, ERR_NOMEM, "tokenizer: no memory for the pre-split");
}

void pretok_scan_close(struct pretok_scan *s)
{
    pcre2_match_data_free(s->match);
    s->match = NULL;
}

int pretok_next(struct pretok_scan *s, struct str text, size_t from, size_t *to, struct err *e)
{
    /* NO_UTF_CHECK: checking the whole text again for each word would take quadratic time. */
    int rc = pcre2_match(s->pretok->code, (PCRE2_SPTR)text.p, text.n, from, PCRE2_NO_UTF_CHECK,
                         s->match, s->pretok->limits);
    if (rc < 0)
        return err_set(e, ERR_BUG, "pre-split %s: PCRE2 error %d at byte %zu of %zu",
                       s->pretok->split->names, rc, from, text.n);
    *to = pcre2_get_ovector_pointer(s->match)[1];
    return *to > from ? ERR_OK : err_set(e, ERR_BUG, "pre-split: empty word at byte %zu", from);
}
