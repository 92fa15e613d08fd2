/* Templates of remote checks. Pure. */
#include "verifier/text/fill.h"

#include <string.h>

static const struct fill_slot *slot_at(struct str rest, const struct fill_slot *slot, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(slot[i].name);
        if (rest.n >= len + 2 && rest.p[0] == '{' && rest.p[len + 1] == '}' &&
            memcmp(rest.p + 1, slot[i].name, len) == 0)
            return &slot[i];
    }
    return NULL;
}

/* The length, and the bytes when out is not NULL. */
static size_t write_filled(struct str t, const struct fill_slot *slot, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < t.n;) {
        const struct fill_slot *hit = slot_at(str_slice(t, i, t.n), slot, n);
        struct str piece = hit ? hit->text : str_slice(t, i, i + 1);
        if (out && piece.n)
            memcpy(out + used, piece.p, piece.n);
        used += piece.n;
        i += hit ? strlen(hit->name) + 2 : 1;
    }
    return used;
}

struct str text_fill(struct str template, const struct fill_slot *slot, size_t n, struct arena *a)
{
    size_t size = write_filled(template, slot, n, NULL);
    char *out = arena_alloc(a, size + 1);
    if (!out)
        return (struct str){NULL, 0};
    write_filled(template, slot, n, out);
    return (struct str){out, size};
}
