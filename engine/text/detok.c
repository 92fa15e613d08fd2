/* Bytes of tokens become whole code points, code points become text, and every byte of the text
 * moves one Knuth-Morris-Pratt automaton per stop string (Knuth, Morris, Pratt 1977, "Fast pattern
 * matching in strings"). The automaton's state is at once the match test and the number of bytes
 * to hold back, so that a stream costs time linear in its text, whatever the stop strings.
 * Invariant: emitted_bytes <= text.n - the longest partial match, both on code point borders. */
#include "engine/text/detok.h"

#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>

/* border[i] = length of the longest proper prefix of stop that ends stop[0..i]. */
static void fill_borders(struct str stop, uint32_t *border)
{
    uint32_t k = 0;
    border[0] = 0;
    for (size_t i = 1; i < stop.n; i++) {
        while (k && stop.p[i] != stop.p[k])
            k = border[k - 1];
        k += stop.p[i] == stop.p[k];
        border[i] = k;
    }
}

void detok_init(struct detok *d, const struct tokenizer *t, const struct str *stop, uint32_t n_stop,
                size_t max_bytes)
{
    *d = (struct detok){.tokenizer = t};
    buf_init(&d->text, max_bytes);
    buf_init(&d->pending, 16 * KiB);
    size_t total = 0;
    for (uint32_t i = 0; i < n_stop && i < DETOK_MAX_STOPS; i++) {
        if (stop[i].n == 0 || stop[i].n > max_bytes || !utf8_is_valid(stop[i]))
            continue;
        d->stop[d->n_stop++] = stop[i];
        total += stop[i].n;
    }
    d->border_mem = malloc((total + 1) * sizeof *d->border_mem);
    d->text.failed = n_stop > DETOK_MAX_STOPS || !d->border_mem;
    if (d->text.failed)
        return;
    uint32_t *next = d->border_mem;
    for (uint32_t i = 0; i < d->n_stop; i++) {
        d->border[i] = next;
        fill_borders(d->stop[i], next);
        next += d->stop[i].n;
    }
}

void detok_fini(struct detok *d)
{
    free(d->border_mem);
    buf_free(&d->text);
    buf_free(&d->pending);
}

/* Moves one automaton by a byte; true when the stop string is complete. */
static bool advance(struct detok *d, uint32_t i, char c)
{
    struct str stop = d->stop[i];
    size_t k = d->matched[i];
    while (k && stop.p[k] != c)
        k = d->border[i][k - 1];
    k += stop.p[k] == c;
    d->matched[i] = k;
    return k == stop.n;
}

/* Adds a whole code point. Stop strings are valid UTF-8, so a match can only end with one. */
static void put_code_point(struct detok *d, struct str bytes)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < d->n_stop; i++) {
        bool is_match = false;
        for (size_t k = 0; k < bytes.n; k++)
            is_match = advance(d, i, bytes.p[k]);
        if (is_match && d->stop[i].n > longest)
            longest = d->stop[i].n;
    }
    buf_put_str(&d->text, bytes);
    if (longest && !d->text.failed) {
        d->text.n -= longest;
        d->stopped = true;
    }
}

/* Pending bytes to text: whole code points, U+FFFD for what cannot become one; a cut one stays,
 * unless the stream ends here. */
static void drain(struct detok *d, bool is_end)
{
    struct str rest = buf_str(&d->pending);
    while (rest.n && !d->stopped && !d->text.failed) {
        uint32_t cp;
        size_t n = utf8_decode(rest, &cp);
        if (n == 0 && !is_end && utf8_partial_tail(rest) == rest.n)
            break;
        put_code_point(d, n ? str_slice(rest, 0, n) : STR("\xEF\xBF\xBD"));
        n = n ? n : utf8_invalid_run(rest);
        rest = str_slice(rest, n, rest.n);
    }
    char tail[4] = {0};
    size_t n_tail = rest.n < sizeof tail ? rest.n : 0; /* more only after a stop: not needed */
    memcpy(tail, rest.p, n_tail);
    buf_reset(&d->pending);
    buf_put(&d->pending, tail, n_tail);
}

static size_t held_bytes(const struct detok *d)
{
    size_t held = 0;
    for (uint32_t i = 0; i < d->n_stop && !d->stopped; i++)
        held = d->matched[i] > held ? d->matched[i] : held;
    return held;
}

static void emit(struct detok *d, size_t held, struct str *piece)
{
    size_t to = d->text.n - held;
    *piece = str_slice(buf_str(&d->text), d->emitted_bytes, to);
    d->emitted_bytes = to;
}

void detok_push(struct detok *d, int32_t id, struct str *piece)
{
    *piece = STR("");
    if (d->stopped || d->text.failed || tokenizer_is_special(d->tokenizer, id))
        return;
    buf_put_str(&d->pending, tokenizer_token_bytes(d->tokenizer, id));
    drain(d, false);
    if (!d->text.failed)
        emit(d, held_bytes(d), piece);
}

void detok_finish(struct detok *d, struct str *piece)
{
    *piece = STR("");
    if (d->text.failed)
        return;
    drain(d, true);
    if (!d->text.failed)
        emit(d, 0, piece);
}
