/* Growing buffer: doubles up to its maximum, then fails for good until reset. */
#include "common/buf.h"

#include "common/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max_bytes = max_bytes};
}

bool buf_grow(struct buf *b, size_t more)
{
    if (b->failed || more > b->max_bytes || b->n > b->max_bytes - more) {
        b->failed = true;
        return false;
    }
    size_t need = b->n + more;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need)
        cap = cap > b->max_bytes / 2 ? b->max_bytes : cap * 2;
    char *p = realloc(b->p, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    char small[128];
    va_start(args, fmt);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        buf_put(b, small, (size_t)n);
        return;
    }
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!text) {
        b->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    buf_put(b, text, (size_t)n);
    free(text);
}

static void put_ascii_escape(struct buf *b, char c)
{
    static const char NAMED[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof NAMED; i += 2) {
        if (NAMED[i] == c) {
            buf_put(b, (char[2]){'\\', NAMED[i + 1]}, 2);
            return;
        }
    }
    static const char HEX[] = "0123456789abcdef";
    unsigned char u = (unsigned char)c;
    buf_put(b, (char[6]){'\\', 'u', '0', '0', HEX[u >> 4], HEX[u & 15]}, 6);
}

void buf_put_json(struct buf *b, struct str s)
{
    while (s.n) {
        size_t run = utf8_plain_run(s);
        buf_put(b, s.p, run);
        s = str_slice(s, run, s.n);
        if (!s.n)
            return;
        uint32_t cp;
        size_t n = (unsigned char)s.p[0] < 0x80 ? 1 : utf8_decode(s, &cp);
        if ((unsigned char)s.p[0] < 0x80) {
            put_ascii_escape(b, s.p[0]);
        } else if (n) {
            buf_put(b, s.p, n);
        } else {
            buf_put_c(b, "\xEF\xBF\xBD");
            n = utf8_invalid_run(s);
        }
        s = str_slice(s, n, s.n);
    }
}

struct str buf_str(const struct buf *b)
{
    return (struct str){b->p ? b->p : "", b->n};
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->failed = false;
}

void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max_bytes = b->max_bytes};
}

int buf_check(const struct buf *b, const char *what, struct err *e)
{
    if (!b->failed)
        return ERR_OK;
    return err_set(e, ERR_NOMEM, "%s: needs more than its limit of %zu bytes", what, b->max_bytes);
}
