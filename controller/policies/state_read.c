/* controller/policies/state_read.c - a state straight from the text that state_write made of it.
 *
 * Restarts read states of a hundred kilobytes; a tree of them takes longer than all the rest. What
 * stands otherwise than state_write puts it (older databases, damage) is left to state_decode,
 * which also words what is wrong. Invariant: nothing is written outside the struct. */
#include "controller/policies/state_read.h"

#include "common/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEX_DIGITS = 16, REAL_BYTES = 31, FRACTION_BITS = 52, EXPONENT_BIAS = 1023 };

static bool pass(struct str *text, char c)
{
    if (text->n == 0 || text->p[0] != c)
        return false;
    *text = str_slice(*text, 1, text->n);
    return true;
}

bool state_pass(struct str *text, const char *literal)
{
    struct str s = str_from(literal);
    if (!str_starts(*text, s))
        return false;
    *text = str_slice(*text, s.n, text->n);
    return true;
}

/* {"name": or ,"name": */
static bool pass_name(struct str *text, char before, const char *name)
{
    return pass(text, before) && pass(text, '"') && state_pass(text, name) &&
           state_pass(text, "\":");
}

/* -1: none. */
static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* How many digits; their value in *out. */
static size_t take_hex(struct str *text, uint64_t *out)
{
    size_t n = 0;
    *out = 0;
    for (int d; n < text->n && n < HEX_DIGITS && (d = digit_of(text->p[n])) >= 0; n++)
        *out = *out << 4 | (uint64_t)d;
    *text = str_slice(*text, n, text->n);
    return n;
}

static bool read_unsigned(const struct state_field *f, struct str *text, char *at)
{
    uint64_t u;
    return take_hex(text, &u) && state_store_unsigned(f, u, at);
}

/* "p+12": what is behind the digits of a double above 0x1p-1022, in which the 1 is not stored. */
static bool take_power(struct str *text, int64_t *power)
{
    bool is_negative = text->n > 1 && text->p[1] == '-';
    size_t i = 2;
    *power = 0;
    if (text->n < 3 || text->p[0] != 'p' || (!is_negative && text->p[1] != '+'))
        return false;
    for (; i < text->n && i < 6 && text->p[i] >= '0' && text->p[i] <= '9'; i++)
        *power = *power * 10 + (text->p[i] - '0');
    *power = is_negative ? -*power : *power;
    *text = str_slice(*text, i, text->n);
    return i > 2 && *power > -EXPONENT_BIAS && *power <= EXPONENT_BIAS;
}

static bool take_usual(struct str *text, double *d)
{
    uint64_t bits = pass(text, '-') ? (uint64_t)1 << 63 : 0, fraction = 0;
    int64_t power;
    size_t n = 0;
    if (!state_pass(text, "0x1"))
        return false;
    if (pass(text, '.') && (n = take_hex(text, &fraction)) > FRACTION_BITS / 4)
        return false;
    if (!take_power(text, &power))
        return false;
    bits |= (uint64_t)(power + EXPONENT_BIAS) << FRACTION_BITS | fraction
                                                                     << (FRACTION_BITS - 4 * n);
    memcpy(d, &bits, sizeof bits);
    return true;
}

/* Zeros, the smallest, and what is no number. */
static bool take_rare(struct str *text, double *d)
{
    char copy[REAL_BYTES + 1], *end;
    size_t n = text->n < REAL_BYTES ? text->n : REAL_BYTES;
    memcpy(copy, text->p, n);
    copy[n] = '\0';
    *d = strtod(copy, &end);
    *text = str_slice(*text, (size_t)(end - copy), text->n);
    return end > copy;
}

static bool read_f64(struct str *text, char *at)
{
    double d = 0.0;
    struct str rest = *text;
    if (!state_pass(&rest, "0x0p+0") && !take_usual(&rest, &d)) {
        rest = *text;
        if (!take_rare(&rest, &d))
            return false;
    }
    memcpy(at, &d, sizeof d);
    *text = rest;
    return true;
}

static bool read_number(const struct state_field *f, struct str *text, char *at)
{
    return f->type == STATE_F64 ? read_f64(text, at) : read_unsigned(f, text, at);
}

static bool read_flat(const struct state_field *fields, struct str *text, char *base)
{
    char before = '"';
    for (const struct state_field *f = fields; f->name; f++, before = ' ')
        if (!pass(text, before) || !read_number(f, text, base + f->offset))
            return false;
    return pass(text, '"');
}

static bool read_text(const struct state_field *f, struct str *text, char *at)
{
    size_t n = utf8_plain_run(*text);
    if (n >= f->size)
        return false;
    memcpy(at, text->p, n);
    at[n] = '\0';
    *text = str_slice(*text, n, text->n);
    return true;
}

static bool read_one(const struct state_field *f, struct str *text, char *at)
{
    if (f->type == STATE_STRUCT)
        return f->count != 1 && state_is_flat(f->sub)
                   ? read_flat(f->sub, text, at)
                   : state_read_fields(f->sub, text, at) && pass(text, '}');
    return pass(text, '"') &&
           (f->type == STATE_TEXT ? read_text(f, text, at) : read_number(f, text, at)) &&
           pass(text, '"');
}

static bool read_field(const struct state_field *f, struct str *text, char *base)
{
    if (f->count == 1)
        return read_one(f, text, base + f->offset);
    size_t n = state_elements_used(f, base);
    if (!pass(text, '['))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((i && !pass(text, ',')) ||
            !read_one(f, text, base + f->offset + i * state_element_size(f)))
            return false;
    return pass(text, ']');
}

bool state_read_fields(const struct state_field *fields, struct str *text, void *state)
{
    char before = '{';
    for (const struct state_field *f = fields; f->name; f++, before = ',')
        if (!pass_name(text, before, f->name) || !read_field(f, text, state))
            return false;
    return true;
}

int state_read(const struct state_field *fields, struct str text, void *state, size_t bytes,
               struct err *e)
{
    struct str rest = text;
    json_t *v = NULL;
    if (state_read_fields(fields, &rest, state) && str_eq_c(rest, "}"))
        return ERR_OK;
    memset(state, 0, bytes);
    int rc = json_parse(text, 0, &v, e);
    if (rc == ERR_OK)
        rc = state_decode(fields, v, state, e);
    json_decref(v);
    return rc;
}
