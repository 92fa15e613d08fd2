/* String slices. No allocation except str_dup_c; no locale-dependent call. */
#include "common/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq((struct str){s.p, prefix.n}, prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n && str_eq((struct str){s.p + (s.n - suffix.n), suffix.n}, suffix);
}

int str_compare(struct str a, struct str b)
{
    size_t shared = a.n < b.n ? a.n : b.n;
    int order = shared ? memcmp(a.p, b.p, shared) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static bool is_ascii_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && is_ascii_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_ascii_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

ptrdiff_t str_find(struct str s, struct str needle, size_t from)
{
    if (from > s.n)
        return -1;
    if (needle.n == 0)
        return (ptrdiff_t)from;
    if (s.n == 0)
        return -1;
    const char *hit = memmem(s.p + from, s.n - from, needle.p, needle.n);
    return hit ? hit - s.p : -1;
}

bool str_split(struct str *rest, char sep, struct str *piece)
{
    if (!rest->p)
        return false;
    const char *hit = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
    if (!hit) {
        *piece = *rest;
        *rest = (struct str){NULL, 0};
        return true;
    }
    size_t n = (size_t)(hit - rest->p);
    *piece = (struct str){rest->p, n};
    *rest = (struct str){hit + 1, rest->n - n - 1};
    return true;
}

int str_to_i64(struct str s, int64_t *out, struct err *e)
{
    char text[32];
    if (s.n == 0 || s.n >= sizeof text || is_ascii_space(s.p[0]))
        return err_set(e, ERR_INVALID, "'" STR_FMT "' is not a whole number", STR_ARG(s));
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end != text + s.n)
        return err_set(e, ERR_INVALID, "'%s' is not a whole number", text);
    *out = value;
    return ERR_OK;
}

int str_to_f64(struct str s, double *out, struct err *e)
{
    char text[64];
    if (s.n == 0 || s.n >= sizeof text || is_ascii_space(s.p[0]))
        return err_set(e, ERR_INVALID, "'" STR_FMT "' is not a number", STR_ARG(s));
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    char *end;
    double value = strtod(text, &end);
    if (end != text + s.n || !isfinite(value))
        return err_set(e, ERR_INVALID, "'%s' is not a finite number", text);
    *out = value;
    return ERR_OK;
}

char *str_dup_c(struct str s)
{
    if (s.n && memchr(s.p, '\0', s.n))
        return NULL;
    char *copy = malloc(s.n + 1);
    if (copy) {
        if (s.n)
            memcpy(copy, s.p, s.n);
        copy[s.n] = '\0';
    }
    return copy;
}
