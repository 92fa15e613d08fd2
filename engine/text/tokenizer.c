/* The tokenizer of a GGUF file: added tokens are cut out of the text first. Byte-level BPE puts the
 * rest through UTF-8 check, pre-split and merging, one word at a time; SentencePiece merges all of
 * what lies between two added tokens, with an empty space in front where the file says so. All
 * built at open is read only after; what encoding needs lives on the caller's stack and heap, so
 * any thread may encode.
 */
#include "engine/text/tokenizer.h"

#include "common/utf8.h"
#include "engine/model/gguf.h"
#include "engine/text/bpe.h"
#include "engine/text/pretok.h"
#include "engine/text/spm.h"

#include <stdlib.h>

enum { MAX_END_IDS = 16 };

struct tokenizer {
    struct arena arena;
    struct vocab vocab;
    struct bpe bpe;
    struct pretok *pretok; /* NULL: SentencePiece */
    struct spm spm;
    bool adds_space; /* in front of a text and behind a control token */
    struct tokenizer_info info;
    int32_t end[MAX_END_IDS];
    uint32_t n_end;
};

/* Tokens by which the known chat templates close a turn or a text. */
static const char *const END_TEXTS[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "</s>",
    "<end_of_turn>",
    ("<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"),
};

/* -1 when the file does not name one. */
static int read_id(const struct gguf *file, const char *key, uint32_t n_vocab, int32_t *out,
                   struct err *e)
{
    uint64_t id;
    *out = -1;
    int rc = gguf_get_u64(file, key, &id, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    if (id >= n_vocab)
        return err_set(e, ERR_INVALID, "%s: %llu; the vocabulary has %u tokens", key,
                       (unsigned long long)id, n_vocab);
    *out = (int32_t)id;
    return ERR_OK;
}

static void add_end(struct tokenizer *t, int32_t id)
{
    if (id >= 0 && t->n_end < MAX_END_IDS && !tokenizer_is_end(t, id))
        t->end[t->n_end++] = id;
}

static int read_info(struct tokenizer *t, const struct gguf *file, struct err *e)
{
    struct tokenizer_info *info = &t->info;
    int32_t turn_end;
    int rc;
    info->n_vocab = t->vocab.n;
    info->n_missing_bytes = t->vocab.n_missing_bytes;
    TRY(read_id(file, "tokenizer.ggml.bos_token_id", info->n_vocab, &info->bos, e));
    TRY(read_id(file, "tokenizer.ggml.eos_token_id", info->n_vocab, &info->eos, e));
    TRY(read_id(file, "tokenizer.ggml.unknown_token_id", info->n_vocab, &info->unk, e));
    TRY(read_id(file, "tokenizer.ggml.padding_token_id", info->n_vocab, &info->pad, e));
    TRY(read_id(file, "tokenizer.ggml.eot_token_id", info->n_vocab, &turn_end, e));
    rc = gguf_get_bool(file, "tokenizer.ggml.add_bos_token", &info->add_bos, e);
    if (rc == ERR_NOT_FOUND) {
        info->add_bos = !t->pretok || pretok_is_bos_default(t->pretok);
        rc = ERR_OK;
    }
    info->add_bos = info->add_bos && info->bos >= 0;
    add_end(t, info->eos);
    add_end(t, turn_end);
    for (size_t i = 0; i < sizeof END_TEXTS / sizeof *END_TEXTS; i++) {
        int32_t id = vocab_find_added(&t->vocab, str_from(END_TEXTS[i]));
        if (vocab_is_control(&t->vocab, id))
            add_end(t, id);
    }
out:
    return rc;
}

static int read_model(const struct gguf *file, bool *is_spm, struct err *e)
{
    struct str model;
    int rc = gguf_get_str(file, "tokenizer.ggml.model", &model, e);
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    *is_spm = str_eq_c(model, "llama");
    if (!*is_spm && !str_eq_c(model, "gpt2"))
        return err_set(e, ERR_UNSUPPORTED,
                       "tokenizer.ggml.model: '" STR_FMT
                       "' is not known; known are gpt2 (byte-level BPE) and llama (SentencePiece)",
                       STR_ARG(str_slice(model, 0, 40)));
    return ERR_OK;
}

static int read_flag(const struct gguf *file, const char *key, bool *out, struct err *e)
{
    int rc = gguf_get_bool(file, key, out, e);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc == ERR_OK ? rc : err_wrap(e, "tokenizer");
}

/* Of SentencePiece's normalisers only the identity is known. */
static int open_spm(struct tokenizer *t, const struct gguf *file, struct err *e)
{
    bool joins_spaces = false;
    struct gguf_array map = {.n = 0};
    int rc;
    t->adds_space = true;
    TRY(read_flag(file, "tokenizer.ggml.add_space_prefix", &t->adds_space, e));
    TRY(read_flag(file, "tokenizer.ggml.remove_extra_whitespaces", &joins_spaces, e));
    if (joins_spaces ||
        (gguf_get_array(file, "tokenizer.ggml.precompiled_charsmap", &map, NULL) == ERR_OK &&
         map.n))
        return err_set(e, ERR_UNSUPPORTED,
                       "tokenizer: SentencePiece with a normaliser other than the identity "
                       "(precompiled_charsmap, remove_extra_whitespaces) is not supported");
    TRY(vocab_init(&t->vocab, file, VOCAB_PIECES, &t->arena, e));
    TRY(spm_init(&t->spm, &t->vocab, file, &t->arena, e));
out:
    return rc;
}

static int open_bpe(struct tokenizer *t, const struct gguf *file, struct str split, struct err *e)
{
    int rc;
    TRY(pretok_open(&t->pretok, split, e));
    TRY(vocab_init(&t->vocab, file, VOCAB_BYTE_LEVEL, &t->arena, e));
    TRY(bpe_init(&t->bpe, &t->vocab, file, &t->arena, e));
out:
    return rc;
}

int tokenizer_open(struct tokenizer **out, const struct gguf *file, struct err *e)
{
    struct str split = STR("default");
    *out = NULL;
    int rc = gguf_get_str(file, "tokenizer.ggml.pre", &split, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return err_wrap(e, "tokenizer");
    return tokenizer_open_split(out, file, split, e);
}

int tokenizer_open_split(struct tokenizer **out, const struct gguf *file, struct str split,
                         struct err *e)
{
    bool is_spm = false;
    int rc;
    *out = NULL;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory");
    arena_init(&t->arena, 512 * MiB);
    TRY(read_model(file, &is_spm, e));
    TRY(is_spm ? open_spm(t, file, e) : open_bpe(t, file, split, e));
    TRY(read_info(t, file, e));
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    return rc;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    pretok_close(t->pretok);
    arena_free(&t->arena);
    free(t);
}

const struct tokenizer_info *tokenizer_get_info(const struct tokenizer *t)
{
    return &t->info;
}

struct encoding {
    const struct tokenizer *t;
    struct pretok_scan scan;
    struct id_sink out;
    struct err *e;
};

static int encode_word(struct encoding *c, struct str word)
{
    if (pretok_is_whole_word_first(c->t->pretok)) {
        int32_t id = vocab_find_word(&c->t->vocab, word);
        if (id >= 0) {
            id_sink_put(&c->out, id);
            return ERR_OK;
        }
    }
    return bpe_encode_word(&c->t->bpe, word, &c->out, c->e);
}

static int encode_valid(struct encoding *c, struct str text)
{
    for (size_t from = 0, to; from < text.n; from = to) {
        int rc = pretok_next(&c->scan, text, from, &to, c->e);
        if (rc == ERR_OK)
            rc = encode_word(c, str_slice(text, from, to));
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Length of the valid, or of the invalid, UTF-8 at the start of s. */
static size_t utf8_run(struct str s, bool is_valid)
{
    size_t at = 0;
    while (at < s.n) {
        uint32_t cp;
        struct str rest = {s.p + at, s.n - at};
        size_t n = (signed char)*rest.p >= 0 ? 1 : utf8_decode(rest, &cp);
        if ((n > 0) != is_valid)
            break;
        at += n ? n : utf8_invalid_run(rest);
    }
    return at;
}

static int encode_plain(struct encoding *c, struct str text)
{
    if (!c->t->pretok)
        return spm_encode(&c->t->spm, text, &c->out, c->e);
    while (text.n) {
        size_t valid = utf8_run(text, true);
        int rc = encode_valid(c, str_slice(text, 0, valid));
        text = str_slice(text, valid, text.n);
        size_t invalid = utf8_run(text, false);
        if (rc == ERR_OK && invalid)
            rc = bpe_encode_word(&c->t->bpe, str_slice(text, 0, invalid), &c->out, c->e);
        if (rc != ERR_OK)
            return rc;
        text = str_slice(text, invalid, text.n);
    }
    return ERR_OK;
}

/* Position of the next user-defined token, its id in *id; text.n and -1 when there is none. */
static size_t find_user_defined(const struct vocab *v, struct str text, int32_t *id)
{
    for (size_t at = 0; at < text.n; at++) {
        if (!v->added_first[0][(unsigned char)text.p[at]])
            continue;
        *id = vocab_match_added(v, str_slice(text, at, text.n), false);
        if (*id >= 0)
            return at;
    }
    *id = -1;
    return text.n;
}

/* The same for control tokens; the longest added token at the leftmost place counts, so a user
 * defined one may stand in the way. */
static size_t find_control(const struct vocab *v, struct str text, int32_t *id)
{
    for (size_t at = 0; at < text.n; at++) {
        if (!v->added_first[1][(unsigned char)text.p[at]])
            continue;
        *id = vocab_match_added(v, str_slice(text, at, text.n), true);
        if (vocab_is_control(v, *id))
            return at;
        at += *id >= 0 ? v->bytes[*id].n - 1 : 0;
    }
    *id = -1;
    return text.n;
}

static int encode_between(struct encoding *c, struct str text)
{
    const struct vocab *v = &c->t->vocab;
    while (text.n) {
        int32_t added;
        size_t at = find_user_defined(v, text, &added);
        int rc = encode_plain(c, str_slice(text, 0, at));
        if (rc != ERR_OK || added < 0)
            return rc;
        id_sink_put(&c->out, added);
        text = str_slice(text, at + v->bytes[added].n, text.n);
    }
    return ERR_OK;
}

/* Text without control tokens, in SentencePiece's spelling: U+2581 is a space, and one more stands
 * in front. */
static int encode_pieces(struct encoding *c, struct str text)
{
    static const struct str SPACE = {"\xE2\x96\x81", 3};
    struct buf plain;
    int rc;
    if (!text.n || (!c->t->adds_space && str_find(text, SPACE, 0) < 0))
        return encode_between(c, text);
    buf_init(&plain, text.n + 1);
    if (c->t->adds_space)
        buf_put_char(&plain, ' ');
    for (ptrdiff_t at; (at = str_find(text, SPACE, 0)) >= 0;) {
        buf_put_str(&plain, str_slice(text, 0, (size_t)at));
        buf_put_char(&plain, ' ');
        text = str_slice(text, (size_t)at + SPACE.n, text.n);
    }
    buf_put_str(&plain, text);
    TRY(buf_check(&plain, "tokenizer: text", c->e));
    TRY(encode_between(c, buf_str(&plain)));
out:
    buf_free(&plain);
    return rc;
}

static int encode_text(struct encoding *c, struct str text, bool parse_special)
{
    const struct vocab *v = &c->t->vocab;
    while (text.n) {
        int32_t control = -1;
        size_t at = parse_special ? find_control(v, text, &control) : text.n;
        struct str before = str_slice(text, 0, at);
        int rc = c->t->pretok ? encode_between(c, before) : encode_pieces(c, before);
        if (rc != ERR_OK || control < 0)
            return rc;
        id_sink_put(&c->out, control);
        text = str_slice(text, at + v->bytes[control].n, text.n);
    }
    return ERR_OK;
}

int tokenizer_encode(const struct tokenizer *t, struct str text, bool parse_special, int32_t *ids,
                     size_t cap, size_t *n, struct err *e)
{
    *n = 0;
    if (text.n > BPE_MAX_WORD_BYTES)
        return err_set(e, ERR_INVALID, "tokenizer: text of %zu bytes; at most %d", text.n,
                       BPE_MAX_WORD_BYTES);
    struct encoding c = {.t = t, .out = {.ids = ids, .cap = cap}, .e = e};
    int rc = t->pretok ? pretok_scan_open(&c.scan, t->pretok, e) : ERR_OK;
    if (rc == ERR_OK)
        rc = encode_text(&c, text, parse_special);
    if (t->pretok)
        pretok_scan_close(&c.scan);
    if (rc != ERR_OK)
        return rc;
    *n = c.out.n;
    if (*n > cap)
        return err_set(e, ERR_NOMEM, "tokenizer: text has %zu tokens; there is room for %zu", *n,
                       cap);
    return ERR_OK;
}

struct str tokenizer_token_bytes(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n ? t->vocab.bytes[id] : STR("");
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return vocab_is_control(&t->vocab, id);
}

int32_t tokenizer_find(const struct tokenizer *t, struct str token_text)
{
    int32_t id = vocab_find_added(&t->vocab, token_text);
    return id >= 0 ? id : vocab_find_word(&t->vocab, token_text);
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
    for (uint32_t i = 0; i < t->n_end; i++)
        if (t->end[i] == id)
            return true;
    return false;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                      struct buf *out)
{
    bool drops_space = t->adds_space;
    for (size_t i = 0; i < n; i++) {
        struct str bytes = tokenizer_token_bytes(t, ids[i]);
        bool is_special = tokenizer_is_special(t, ids[i]);
        if (!is_special && drops_space)
            bytes = str_slice(bytes, bytes.n && bytes.p[0] == ' ', bytes.n);
        drops_space = is_special && t->adds_space;
        if (!skip_special || !is_special)
            buf_put_str(out, bytes);
    }
}
