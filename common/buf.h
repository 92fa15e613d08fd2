/* common/buf.h - growing bytes with a maximum given at creation.
 *
 * A failed put sets `failed` and later puts do nothing, so that a sequence of puts needs one check
 * at its end. One owner. */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include "common/str.h"

#define KiB ((size_t)1024)
#define MiB (KiB * 1024)

struct buf {
    char *p;
    size_t n, cap, max_bytes;
    bool failed; /* memory or the maximum ran out */
};

void buf_init(struct buf *b, size_t max_bytes);
/* As buf_reserve, when the memory at hand does not do. */
bool buf_grow(struct buf *b, size_t more);

/* Room for `more` bytes at p + n, for whoever writes there itself. False: failed. */
static inline bool buf_reserve(struct buf *b, size_t more)
{
    size_t at_hand = b->cap < b->max_bytes ? b->cap : b->max_bytes;
    return (!b->failed && b->n <= at_hand && more <= at_hand - b->n) || buf_grow(b, more);
}

static inline void buf_put(struct buf *b, const void *p, size_t n)
{
    if (n && buf_reserve(b, n)) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    }
}

static inline void buf_put_str(struct buf *b, struct str s)
{
    buf_put(b, s.p, s.n);
}

static inline void buf_put_c(struct buf *b, const char *c)
{
    buf_put(b, c, strlen(c));
}

static inline void buf_put_char(struct buf *b, char c)
{
    if (buf_reserve(b, 1))
        b->p[b->n++] = c;
}

void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The text as the inside of a JSON string: escapes, no quotes. Invalid UTF-8 becomes U+FFFD. */
void buf_put_json(struct buf *b, struct str s);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_i64(struct buf *b, int64_t v);
/* Finite; reads back as the same double, and as a real: "3.0". */
void buf_put_real(struct buf *b, double x);
/* The same for a float, in at most 13 decimals: of what is below 1e-6, some of the digits go. */
void buf_put_float(struct buf *b, float x);
struct str buf_str(const struct buf *b); /* borrowed until the next put */
void buf_reset(struct buf *b);           /* keeps the memory, clears `failed` */
void buf_free(struct buf *b);
/* ERR_OK, or ERR_NOMEM naming `what` and the maximum. */
MUST_USE int buf_check(const struct buf *b, const char *what, struct err *e);

#endif
