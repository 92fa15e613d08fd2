/* Resolution of URI references: split, merge, remove dot segments. No normalisation beyond. */
#include "verifier/schema/uri.h"

#include <string.h>

struct parts {
    struct str scheme, authority, path, query; /* p NULL: not there (path: never) */
};

static bool is_scheme(struct str s)
{
    bool is_letter = s.n > 0 && ((s.p[0] | 32) >= 'a' && (s.p[0] | 32) <= 'z');
    for (size_t i = 1; i < s.n && is_letter; i++) {
        char c = s.p[i];
        is_letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
                    c == '-' || c == '.';
    }
    return is_letter;
}

/* No fragment in s. */
static struct parts split(struct str s)
{
    struct parts p = {0};
    ptrdiff_t colon = str_find(s, STR(":"), 0);
    if (colon > 0 && is_scheme(str_slice(s, 0, (size_t)colon))) {
        p.scheme = str_slice(s, 0, (size_t)colon);
        s = str_slice(s, (size_t)colon + 1, s.n);
    }
    ptrdiff_t mark = str_find(s, STR("?"), 0);
    if (mark >= 0) {
        p.query = str_slice(s, (size_t)mark + 1, s.n);
        s = str_slice(s, 0, (size_t)mark);
    }
    if (str_starts(s, STR("//"))) {
        ptrdiff_t end = str_find(s, STR("/"), 2);
        size_t stop = end < 0 ? s.n : (size_t)end;
        p.authority = str_slice(s, 2, stop);
        s = str_slice(s, stop, s.n);
    }
    p.path = s.p ? s : STR("");
    return p;
}

/* Section 5.2.4, into a buffer as long as the path. */
static struct str remove_dots(struct str path, struct arena *a)
{
    char *out = arena_alloc(a, path.n + 1);
    size_t n = 0;
    bool is_absolute = str_starts(path, STR("/"));
    struct str rest = str_slice(path, is_absolute, path.n), segment;
    if (!out)
        return (struct str){0};
    if (is_absolute)
        out[n++] = '/';
    while (str_split(&rest, '/', &segment)) {
        bool is_last = rest.p == NULL;
        if (str_eq_c(segment, "..")) {
            n -= n > is_absolute; /* the slash behind the last segment */
            while (n > is_absolute && out[n - 1] != '/')
                n--;
        } else if (!str_eq_c(segment, ".")) {
            memcpy(out + n, segment.p, segment.n);
            n += segment.n;
            if (!is_last)
                out[n++] = '/';
        }
    }
    return (struct str){out, n};
}

/* Section 5.2.3. */
static struct str merge(const struct parts *base, struct str path, struct arena *a)
{
    if (base->authority.p && base->path.n == 0)
        return arena_printf(a, "/" STR_FMT, STR_ARG(path));
    size_t keep = base->path.n;
    while (keep > 0 && base->path.p[keep - 1] != '/')
        keep--;
    return arena_printf(a, STR_FMT STR_FMT, (int)keep, base->path.p, STR_ARG(path));
}

static struct parts combine(const struct parts *base, struct parts r, struct arena *a)
{
    if (r.scheme.p)
        return r;
    r.scheme = base->scheme;
    if (r.authority.p)
        return r;
    r.authority = base->authority;
    if (r.path.n == 0) {
        r.path = base->path;
        r.query = r.query.p ? r.query : base->query;
        return r;
    }
    if (!str_starts(r.path, STR("/")))
        r.path = merge(base, r.path, a);
    if (r.path.p)
        r.path = remove_dots(r.path, a);
    return r;
}

struct str uri_resolve(struct str base, struct str reference, struct str *fragment, struct arena *a)
{
    struct str rest = reference, front;
    *fragment = (struct str){0};
    if (!str_split(&rest, '#', &front))
        front = STR("");
    *fragment = rest;
    struct parts from = split(base), to = combine(&from, split(front), a);
    if (!to.path.p)
        return (struct str){0};
    return arena_printf(a, STR_FMT "%s%s" STR_FMT STR_FMT "%s" STR_FMT, STR_ARG(to.scheme),
                        to.scheme.p ? ":" : "", to.authority.p ? "//" : "", STR_ARG(to.authority),
                        STR_ARG(to.path), to.query.p ? "?" : "", STR_ARG(to.query));
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct str uri_decode(struct str s, struct arena *a)
{
    char *out = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < s.n; i++) {
        if (s.p[i] != '%') {
            out[n++] = s.p[i];
            continue;
        }
        int high = i + 2 < s.n ? hex(s.p[i + 1]) : -1, low = i + 2 < s.n ? hex(s.p[i + 2]) : -1;
        if (high < 0 || low < 0)
            return (struct str){0};
        out[n++] = (char)(high << 4 | low);
        i += 2;
    }
    return (struct str){out, out ? n : 0};
}
