/* engine/text/fixture.h - small GGUF files with a hand-made vocabulary, for tests and fuzz targets.
 *
 * Ids 0..255 are the bytes in order, then the wholes of the merges, then control tokens, then user
 * defined ones. */
#ifndef ENGINE_TEXT_FIXTURE_H
#define ENGINE_TEXT_FIXTURE_H

#include "common/buf.h"
#include "common/utf8.h"
#include "engine/model/gguf.h"
#include "engine/text/byte_map.h"

#include <string.h>

enum { FIXTURE_MAX_LIST = 512 };

struct fixture {
    const char *model;                   /* "gpt2" when NULL */
    const char *split;                   /* tokenizer.ggml.pre, "gpt-2" when NULL */
    struct str jinja;                    /* tokenizer.chat_template, left out when empty */
    const char *merge[FIXTURE_MAX_LIST]; /* "left right" in ASCII without spaces */
    const char *control[24], *user[8];
    const char *extra_token; /* one more normal token */
    int missing_byte_plus_1; /* a byte without token */
    uint32_t bos, eos;       /* ids; 0: the key is left out */
    int n_type_error;        /* token types too many */
};

static inline void fixture_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, sizeof v);
}

static inline void fixture_text(struct buf *b, struct str s)
{
    uint64_t n = s.n;
    buf_put(b, &n, sizeof n);
    buf_put_str(b, s);
}

static inline void fixture_key(struct buf *b, const char *key, enum gguf_type type)
{
    fixture_text(b, str_from(key));
    fixture_u32(b, type);
}

static inline void fixture_array(struct buf *b, const char *key, enum gguf_type type, uint64_t n)
{
    fixture_key(b, key, GGUF_ARRAY);
    fixture_u32(b, type);
    buf_put(b, &n, sizeof n);
}

/* The visible code point of a byte, as UTF-8. */
static inline struct str fixture_visible(int byte, char out[4])
{
    for (uint32_t cp = 0; cp < 0x144; cp++)
        if (byte_map_from_cp(cp) == byte)
            return (struct str){out, utf8_encode(cp, out)};
    return STR("");
}

static inline void fixture_whole(struct buf *b, const char *merge)
{
    char whole[64];
    size_t n = 0;
    for (; *merge && n < sizeof whole; merge++)
        if (*merge != ' ')
            whole[n++] = *merge;
    fixture_text(b, (struct str){whole, n});
}

static inline uint32_t fixture_count(const char *const *list, size_t most)
{
    uint32_t n = 0;
    while (n < most && list[n])
        n++;
    return n;
}

static inline void fixture_tokens(struct buf *b, const struct fixture *f, uint32_t n_merges,
                                  uint32_t n_control, uint32_t n_user)
{
    char visible[4];
    uint32_t n_extra = f->extra_token != NULL, n = 256 + n_merges + n_control + n_user + n_extra;
    fixture_array(b, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (int i = 0; i < 256; i++)
        fixture_text(b, i + 1 == f->missing_byte_plus_1 ? STR("\xE2\x96\x81")
                                                        : fixture_visible(i, visible));
    for (uint32_t i = 0; i < n_merges; i++)
        fixture_whole(b, f->merge[i]);
    for (uint32_t i = 0; i < n_control; i++)
        fixture_text(b, str_from(f->control[i]));
    for (uint32_t i = 0; i < n_user; i++)
        fixture_text(b, str_from(f->user[i]));
    if (n_extra)
        fixture_text(b, str_from(f->extra_token));
    fixture_array(b, "tokenizer.ggml.token_type", GGUF_I32, n + f->n_type_error);
    for (uint32_t i = 0; i < n + f->n_type_error; i++) {
        uint32_t user_from = 256 + n_merges + n_control;
        bool is_control = i >= 256 + n_merges && i < user_from;
        fixture_u32(b, is_control ? 3 : i >= user_from && i < user_from + n_user ? 4 : 1);
    }
}

static inline void fixture_write(struct buf *b, const struct fixture *f)
{
    uint32_t n_merges = fixture_count(f->merge, FIXTURE_MAX_LIST);
    uint64_t n_keys = 5 + (f->jinja.n > 0) + (f->bos > 0) + (f->eos > 0), n_tensors = 0;
    buf_put_c(b, "GGUF");
    fixture_u32(b, 3);
    buf_put(b, &n_tensors, 8);
    buf_put(b, &n_keys, 8);
    fixture_key(b, "tokenizer.ggml.model", GGUF_STRING);
    fixture_text(b, str_from(f->model ? f->model : "gpt2"));
    fixture_key(b, "tokenizer.ggml.pre", GGUF_STRING);
    fixture_text(b, str_from(f->split ? f->split : "gpt-2"));
    fixture_tokens(b, f, n_merges, fixture_count(f->control, 24), fixture_count(f->user, 8));
    fixture_array(b, "tokenizer.ggml.merges", GGUF_STRING, n_merges);
    for (uint32_t i = 0; i < n_merges; i++)
        fixture_text(b, str_from(f->merge[i]));
    if (f->jinja.n) {
        fixture_key(b, "tokenizer.chat_template", GGUF_STRING);
        fixture_text(b, f->jinja);
    }
    if (f->eos) {
        fixture_key(b, "tokenizer.ggml.eos_token_id", GGUF_U32);
        fixture_u32(b, f->eos);
    }
    if (f->bos) {
        fixture_key(b, "tokenizer.ggml.bos_token_id", GGUF_U32);
        fixture_u32(b, f->bos);
    }
}

#endif
