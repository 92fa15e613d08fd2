/* Loads tokenizer.ggml.tokens and token_type, turns the visible code points into bytes and builds
 * the two look-ups. The word table is seeded, so that a file cannot be made to collide. */
#include "engine/text/vocab.h"

#include "common/hash.h"
#include "common/rng.h"
#include "engine/model/gguf.h"
#include "engine/text/byte_map.h"

#include <stdlib.h>
#include <string.h>

static bool is_added(const struct vocab *v, uint32_t id)
{
    return v->kind[id] == TOKEN_CONTROL || v->kind[id] == TOKEN_UNKNOWN ||
           v->kind[id] == TOKEN_USER_DEFINED;
}

bool vocab_is_control(const struct vocab *v, int32_t id)
{
    return id >= 0 && (uint32_t)id < v->n &&
           (v->kind[id] == TOKEN_CONTROL || v->kind[id] == TOKEN_UNKNOWN);
}

/* The slot of these bytes, or the free one where they would go. */
static uint64_t find_slot(const struct vocab *v, struct str bytes)
{
    uint64_t at = hash64(bytes.p, bytes.n, v->seed) & v->word_mask;
    while (v->word_slot[at] && !str_eq(v->bytes[v->word_slot[at] - 1], bytes))
        at = (at + 1) & v->word_mask;
    return at;
}

int32_t vocab_find_word(const struct vocab *v, struct str bytes)
{
    if (bytes.n == 1)
        return v->byte_id[(unsigned char)bytes.p[0]];
    return bytes.n ? (int32_t)v->word_slot[find_slot(v, bytes)] - 1 : -1;
}

static int read_tokens(struct gguf_array *out, const struct gguf *file, size_t *total,
                       struct err *e)
{
    int rc = gguf_get_array(file, "tokenizer.ggml.tokens", out, e);
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    if (!out->strings)
        return err_set(e, ERR_INVALID, "tokenizer.ggml.tokens: want an array of strings");
    if (out->n == 0 || out->n > VOCAB_MAX_TOKENS)
        return err_set(e, ERR_INVALID, "tokenizer.ggml.tokens: %llu tokens; 1 to %d are allowed",
                       (unsigned long long)out->n, VOCAB_MAX_TOKENS);
    *total = 0;
    for (uint64_t i = 0; i < out->n; i++) {
        if (out->strings[i].n > VOCAB_MAX_TOKEN_BYTES)
            return err_set(e, ERR_INVALID,
                           "tokenizer.ggml.tokens: token %llu has %zu bytes; at most %d",
                           (unsigned long long)i, out->strings[i].n, VOCAB_MAX_TOKEN_BYTES);
        *total += out->strings[i].n;
    }
    if (*total > VOCAB_MAX_BYTES)
        return err_set(e, ERR_INVALID, "tokenizer.ggml.tokens: %zu bytes of text; at most %d",
                       *total, VOCAB_MAX_BYTES);
    return ERR_OK;
}

/* A file without types has only normal tokens; what ends and begins a text is then control. */
static void default_kinds(struct vocab *v, const struct gguf *file)
{
    static const char *const CONTROL_KEYS[] = {"tokenizer.ggml.bos_token_id",
                                               "tokenizer.ggml.eos_token_id"};
    memset(v->kind, TOKEN_NORMAL, v->n);
    for (size_t i = 0; i < 2; i++) {
        uint64_t id;
        if (gguf_get_u64(file, CONTROL_KEYS[i], &id, NULL) == ERR_OK && id < v->n)
            v->kind[id] = TOKEN_CONTROL;
    }
}

static int read_kinds(struct vocab *v, const struct gguf *file, struct err *e)
{
    struct gguf_array types;
    int rc = gguf_get_array(file, "tokenizer.ggml.token_type", &types, e);
    if (rc == ERR_NOT_FOUND) {
        default_kinds(v, file);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    if (types.strings || types.n != v->n)
        return err_set(e, ERR_INVALID,
                       "tokenizer.ggml.token_type: %llu entries; want %u numbers, one per token",
                       (unsigned long long)types.n, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        int64_t kind = gguf_array_i64(&types, i);
        if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE)
            return err_set(e, ERR_INVALID,
                           "tokenizer.ggml.token_type: token %u has type %lld; 1 to 6 are known", i,
                           (long long)kind);
        v->kind[i] = (uint8_t)kind;
    }
    return ERR_OK;
}

/* Some files call these user defined, which text may spell; a turn must not be forged by text. */
static void make_markers_control(struct vocab *v, const struct str *tokens)
{
    static const char *const MARKERS[] = {
        "<|im_start|>",
        "<|im_end|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "[INST]",
        "[/INST]",
        "<\xEF\xBD\x9CUser\xEF\xBD\x9C>",
        ("<\xEF\xBD\x9C"
         "Assistant\xEF\xBD\x9C>"),
        "<s>",
        "</s>",
    };
    /* In Gemma's pieces <s> is a tag of HTML. */
    size_t n_markers = sizeof MARKERS / sizeof *MARKERS - (v->spelling == VOCAB_PIECES ? 2 : 0);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->kind[i] != TOKEN_USER_DEFINED && v->kind[i] != TOKEN_NORMAL)
            continue;
        if (tokens[i].n == 0 || (tokens[i].p[0] != '<' && tokens[i].p[0] != '['))
            continue;
        for (size_t k = 0; k < n_markers; k++)
            if (str_eq_c(tokens[i], MARKERS[k]))
                v->kind[i] = TOKEN_CONTROL;
    }
}

/* Spaces for U+2581; returns the bytes written, at most text.n. */
static size_t unescape_spaces(struct str text, char *to)
{
    size_t n = 0;
    while (text.n) {
        bool is_space = str_starts(text, STR("\xE2\x96\x81"));
        to[n++] = is_space ? ' ' : *text.p;
        text = str_slice(text, is_space ? 3 : 1, text.n);
    }
    return n;
}

/* "<0x0A>", or -1. */
static int parse_byte_piece(struct str text)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    if (text.n != 6 || !str_starts(text, STR("<0x")) || text.p[5] != '>')
        return -1;
    const char *high = memchr(DIGITS, text.p[3], 16), *low = memchr(DIGITS, text.p[4], 16);
    return high && low ? (int)(high - DIGITS) * 16 + (int)(low - DIGITS) : -1;
}

/* An unused piece is no word: no text becomes one. */
static int store_piece(struct vocab *v, uint32_t id, struct str text, char *to, bool *is_word,
                       struct err *e)
{
    *is_word = v->kind[id] == TOKEN_NORMAL && text.n;
    if (v->kind[id] == TOKEN_BYTE) {
        int byte = parse_byte_piece(text);
        if (byte < 0 || v->byte_token[byte] >= 0)
            return err_set(e, ERR_INVALID,
                           "tokenizer.ggml.tokens: token %u '" STR_FMT
                           "' is of type byte; want <0x00> to <0xFF>, each once",
                           id, STR_ARG(str_slice(text, 0, 40)));
        *to = (char)byte;
        v->byte_token[byte] = (int32_t)id;
        v->bytes[id] = (struct str){to, 1};
        return ERR_OK;
    }
    v->bytes[id] = (struct str){to, text.n};
    if (v->kind[id] == TOKEN_CONTROL || v->kind[id] == TOKEN_UNKNOWN)
        memcpy(to, text.p, text.n);
    else
        v->bytes[id].n = unescape_spaces(text, to);
    return ERR_OK;
}

/* Words decode to bytes. A text that stands for no bytes, and every added token, is kept as it is.
 * True when the token can be a word. */
static bool store_bytes(struct vocab *v, uint32_t id, struct str text, char *to)
{
    ptrdiff_t n = byte_map_decode(text, to);
    bool is_same = n == (ptrdiff_t)text.n && memcmp(to, text.p, text.n) == 0;
    bool keep_text = n < 0 || is_added(v, id);
    if (keep_text && text.n)
        memcpy(to, text.p, text.n);
    v->bytes[id] = (struct str){to, keep_text ? text.n : (size_t)n};
    if (v->kind[id] == TOKEN_USER_DEFINED)
        return is_same;
    return n > 0 && !is_added(v, id);
}

static int add_word(struct vocab *v, uint32_t id, struct err *e)
{
    struct str bytes = v->bytes[id];
    if (bytes.n == 1) {
        int32_t *slot = &v->byte_id[(unsigned char)bytes.p[0]];
        if (*slot >= 0)
            return err_set(e, ERR_INVALID,
                           "tokenizer.ggml.tokens: tokens %d and %u are the same text", *slot, id);
        *slot = (int32_t)id;
        return ERR_OK;
    }
    uint64_t at = find_slot(v, bytes);
    if (v->word_slot[at])
        return err_set(e, ERR_INVALID, "tokenizer.ggml.tokens: tokens %u and %u are the same text",
                       v->word_slot[at] - 1, id);
    v->word_slot[at] = id + 1;
    return ERR_OK;
}

struct added_key { /* qsort has no context argument in C17 */
    struct str text;
    int32_t id;
};

static int compare_added(const void *a, const void *b)
{
    return str_compare(((const struct added_key *)a)->text, ((const struct added_key *)b)->text);
}

static int sort_added(struct vocab *v, struct arena *a, struct err *e)
{
    for (uint32_t i = 0; i < v->n; i++)
        v->n_added += is_added(v, i) && v->bytes[i].n;
    struct added_key *keys = calloc(v->n_added + 1, sizeof *keys);
    v->added = arena_array(a, v->n_added + 1, sizeof *v->added);
    int rc = ERR_OK;
    if (!keys || !v->added) {
        rc = err_set(e, ERR_NOMEM, "tokenizer: no memory for %u added tokens", v->n_added);
        goto out;
    }
    for (uint32_t i = 0, at = 0; i < v->n; i++)
        if (is_added(v, i) && v->bytes[i].n)
            keys[at++] = (struct added_key){v->bytes[i], (int32_t)i};
    qsort(keys, v->n_added, sizeof *keys, compare_added);
    for (uint32_t i = 0; i < v->n_added; i++) {
        v->added[i] = keys[i].id;
        unsigned char first = (unsigned char)keys[i].text.p[0];
        v->added_first[1][first] = true;
        v->added_first[0][first] |= v->kind[keys[i].id] == TOKEN_USER_DEFINED;
        if (i && str_eq(keys[i].text, keys[i - 1].text)) {
            rc =
                err_set(e, ERR_INVALID, "tokenizer.ggml.tokens: tokens %d and %d are the same text",
                        keys[i - 1].id, keys[i].id);
            goto out;
        }
    }
out:
    free(keys);
    return rc;
}

static int alloc_tables(struct vocab *v, struct arena *a, struct err *e)
{
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)v->n)
        slots *= 2;
    v->word_mask = slots - 1;
    v->bytes = arena_array(a, v->n, sizeof *v->bytes);
    v->kind = arena_array(a, v->n, sizeof *v->kind);
    v->word_slot = arena_array(a, slots, sizeof *v->word_slot);
    if (!v->bytes || !v->kind || !v->word_slot)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory for %u tokens", v->n);
    return ERR_OK;
}

static int store_tokens(struct vocab *v, const struct str *tokens, char *blob, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; i < v->n; i++) {
        bool is_word = false;
        if (v->spelling == VOCAB_BYTE_LEVEL)
            is_word = store_bytes(v, i, tokens[i], blob);
        else
            TRY(store_piece(v, i, tokens[i], blob, &is_word, e));
        if (is_word)
            TRY(add_word(v, i, e));
        blob += tokens[i].n;
    }
    for (int i = 0; i < 256; i++)
        v->n_missing_bytes += v->byte_id[i] < 0 && v->byte_token[i] < 0;
out:
    return rc;
}

int vocab_init(struct vocab *v, const struct gguf *file, enum vocab_spelling spelling,
               struct arena *a, struct err *e)
{
    *v = (struct vocab){.spelling = spelling, .seed = rng_entropy()};
    memset(v->byte_id, 0xFF, sizeof v->byte_id);
    memset(v->byte_token, 0xFF, sizeof v->byte_token);
    struct gguf_array tokens;
    size_t total = 0;
    int rc;
    TRY(read_tokens(&tokens, file, &total, e));
    v->n = (uint32_t)tokens.n;
    TRY(alloc_tables(v, a, e));
    TRY(read_kinds(v, file, e));
    make_markers_control(v, tokens.strings);
    char *blob = arena_alloc(a, total + 1);
    if (!blob)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory for %zu bytes of tokens", total);
    TRY(store_tokens(v, tokens.strings, blob, e));
    TRY(sort_added(v, a, e));
out:
    return rc;
}

/* Narrows [*low, *high) of the sorted added tokens, which agree in their first `depth` bytes, to
 * those with byte c next. Tokens of exactly `depth` bytes stand first and must be left out. */
static void narrow(const struct vocab *v, size_t depth, unsigned char c, uint32_t *low,
                   uint32_t *high)
{
    uint32_t bound[2];
    for (int upper = 0; upper < 2; upper++) {
        uint32_t l = *low, h = *high;
        while (l < h) {
            uint32_t mid = l + (h - l) / 2;
            unsigned char m = (unsigned char)v->bytes[v->added[mid]].p[depth];
            if (m < c || (upper && m == c))
                l = mid + 1;
            else
                h = mid;
        }
        bound[upper] = l;
    }
    *low = bound[0];
    *high = bound[1];
}

int32_t vocab_match_added(const struct vocab *v, struct str text, bool with_control)
{
    uint32_t low = 0, high = v->n_added;
    int32_t longest = -1;
    for (size_t depth = 0; depth < text.n && low < high; depth++) {
        narrow(v, depth, (unsigned char)text.p[depth], &low, &high);
        if (low < high && v->bytes[v->added[low]].n == depth + 1) {
            int32_t id = v->added[low++];
            if (with_control || v->kind[id] == TOKEN_USER_DEFINED)
                longest = id;
        }
    }
    return longest;
}

int32_t vocab_find_added(const struct vocab *v, struct str text)
{
    uint32_t low = 0, high = v->n_added;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = str_compare(v->bytes[v->added[mid]], text);
        if (order == 0)
            return v->added[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}
