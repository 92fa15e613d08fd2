/* controller/policies/state_codec.c - walks a field table over a struct and a JSON object.
 *
 * Invariant: decode never writes outside the struct whatever the text: array lengths are bounded by
 * the table, texts by their buffer. Assumes the "C" numeric locale, which no program here leaves.
 */
#include "controller/policies/state_codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t NUMBER_SIZE[] = {[STATE_F64] = sizeof(double),
                                     [STATE_U64] = sizeof(uint64_t),
                                     [STATE_U32] = sizeof(uint32_t),
                                     [STATE_BOOL] = sizeof(bool)};

size_t state_element_size(const struct state_field *f)
{
    return f->type == STATE_TEXT || f->type == STATE_STRUCT ? f->size : NUMBER_SIZE[f->type];
}

size_t state_elements_used(const struct state_field *f, const char *base)
{
    if (f->counter == STATE_NO_COUNTER)
        return f->count;
    uint32_t n;
    memcpy(&n, base + f->counter, sizeof n);
    return n < f->count ? n : f->count;
}

static uint64_t load_unsigned(enum state_type type, const char *at)
{
    uint64_t wide;
    uint32_t narrow;
    bool flag;
    if (type == STATE_U64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (type == STATE_U32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&flag, at, sizeof flag);
    return flag;
}

bool state_store_unsigned(const struct state_field *f, uint64_t value, char *at)
{
    static const uint64_t MOST[] = {
        [STATE_U64] = UINT64_MAX, [STATE_U32] = UINT32_MAX, [STATE_BOOL] = 1};
    uint32_t narrow = (uint32_t)value;
    bool flag = value != 0;
    if (value > MOST[f->type] || (f->size && value > f->size))
        return false;
    if (f->type == STATE_U64)
        memcpy(at, &value, sizeof value);
    else if (f->type == STATE_U32)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &flag, sizeof flag);
    return true;
}

enum { NUMBER_BYTES = 32 };

/* As printf's %a writes a double, without its cost: states hold thousands of them. */
static size_t text_of_f64(double d, char *text)
{
    static const char DIGITS[] = "0123456789abcdef";
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    unsigned exponent = (unsigned)(bits >> 52) & 0x7ff;
    uint64_t fraction = bits & 0xfffffffffffffu;
    if (bits == 0) { /* the most frequent of all */
        memcpy(text, "0x0p+0", 6);
        return 6;
    }
    if (exponent == 0 || exponent == 0x7ff)
        return (size_t)snprintf(text, NUMBER_BYTES, "%a", d);
    size_t n = 0;
    for (const char *lead = bits >> 63 ? "-0x1" : "0x1"; *lead; lead++)
        text[n++] = *lead;
    if (fraction)
        text[n++] = '.';
    for (uint64_t left = fraction << 12; left; left <<= 4)
        text[n++] = DIGITS[left >> 60];
    int power = (int)exponent - 1023, left = abs(power);
    text[n++] = 'p';
    text[n++] = power < 0 ? '-' : '+';
    for (int scale = left >= 1000  ? 1000
                     : left >= 100 ? 100
                     : left >= 10  ? 10
                                   : 1;
         scale; left %= scale, scale /= 10)
        text[n++] = DIGITS[left / scale];
    return n;
}

static size_t text_of_unsigned(uint64_t value, char *text)
{
    size_t n = 1;
    while (n < 16 && value >> (4 * n))
        n++;
    for (size_t i = n; i--; value >>= 4)
        text[i] = "0123456789abcdef"[value & 15];
    return n;
}

/* At most NUMBER_BYTES, not in quotes. */
static size_t text_of(const struct state_field *f, const char *at, char *text)
{
    double d;
    if (f->type != STATE_F64)
        return text_of_unsigned(load_unsigned(f->type, at), text);
    memcpy(&d, at, sizeof d);
    return text_of_f64(d, text);
}

/* A struct of single numbers: its elements in an array are written as one text each, "1 0x1p+0 0".
 * Rows that wait in hundreds are most of a state. */
bool state_is_flat(const struct state_field *fields)
{
    const struct state_field *f = fields;
    while (f->name && f->count == 1 && f->type != STATE_TEXT && f->type != STATE_STRUCT)
        f++;
    return !f->name;
}

static void write_flat(const struct state_field *fields, const char *base, struct buf *out)
{
    char before = '"';
    for (const struct state_field *f = fields; f->name; f++) {
        if (!buf_reserve(out, NUMBER_BYTES + 1))
            return;
        out->p[out->n++] = before;
        out->n += text_of(f, base + f->offset, out->p + out->n);
        before = ' ';
    }
    buf_put_char(out, '"');
}

static void write_one(const struct state_field *f, const char *at, struct buf *out)
{
    if (f->type == STATE_STRUCT) {
        state_write(f->sub, at, out);
        return;
    }
    if (f->type == STATE_TEXT) {
        buf_put_char(out, '"');
        buf_put_json(out, str_from(at));
        buf_put_char(out, '"');
    } else if (buf_reserve(out, NUMBER_BYTES + 2)) {
        out->p[out->n++] = '"';
        out->n += text_of(f, at, out->p + out->n);
        out->p[out->n++] = '"';
    }
}

static void write_field(const struct state_field *f, const char *base, struct buf *out)
{
    if (f->count == 1) {
        write_one(f, base + f->offset, out);
        return;
    }
    size_t n = state_elements_used(f, base);
    bool flat = f->type == STATE_STRUCT && state_is_flat(f->sub);
    buf_put_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        const char *at = base + f->offset + i * state_element_size(f);
        if (i)
            buf_put_char(out, ',');
        if (flat)
            write_flat(f->sub, at, out);
        else
            write_one(f, at, out);
    }
    buf_put_char(out, ']');
}

static void put_name(struct buf *out, char before, const char *name)
{
    size_t n = strlen(name);
    if (!buf_reserve(out, n + 4))
        return;
    char *to = out->p + out->n;
    to[0] = before;
    to[1] = '"';
    memcpy(to + 2, name, n);
    to[n + 2] = '"';
    to[n + 3] = ':';
    out->n += n + 4;
}

void state_write(const struct state_field *fields, const void *state, struct buf *out)
{
    char before = '{';
    for (const struct state_field *f = fields; f->name; f++) {
        put_name(out, before, f->name);
        write_field(f, state, out);
        before = ',';
    }
    buf_put_char(out, '}');
}

json_t *state_encode(const struct state_field *fields, const void *state)
{
    struct buf text;
    json_t *v = NULL;
    buf_init(&text, STATE_MAX_BYTES);
    state_write(fields, state, &text);
    if (buf_check(&text, "state", NULL) != ERR_OK ||
        json_parse(buf_str(&text), 0, &v, NULL) != ERR_OK)
        v = NULL;
    buf_free(&text);
    return v;
}

static int bad(const struct state_field *f, const char *want, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "policy state: field \"%s\": want %s; replay the rows instead",
                   f->name, want);
}

/* A number ends where its text does, or at the space before the next one, which is passed. */
static bool passes(const char **text, const char *end)
{
    bool is_end = end != *text && (*end == '\0' || *end == ' ');
    *text = *end == ' ' ? end + 1 : end;
    return is_end;
}

static int decode_f64(const struct state_field *f, const char **text, char *at, struct err *e)
{
    char *end;
    double d = strtod(*text, &end);
    if (!passes(text, end))
        return bad(f, "a hexadecimal float", e);
    memcpy(at, &d, sizeof d);
    return ERR_OK;
}

static int decode_unsigned(const struct state_field *f, const char **text, char *at, struct err *e)
{
    char *end;
    errno = 0;
    bool is_negative = **text == '-';
    unsigned long long u = strtoull(*text, &end, 16);
    if (!passes(text, end) || errno || is_negative || !state_store_unsigned(f, u, at))
        return bad(f, "a hexadecimal integer in range", e);
    return ERR_OK;
}

static int decode_number(const struct state_field *f, const char **text, char *at, struct err *e)
{
    return f->type == STATE_F64 ? decode_f64(f, text, at, e) : decode_unsigned(f, text, at, e);
}

static int decode_flat(const struct state_field *fields, const char *text, char *base,
                       struct err *e)
{
    const struct state_field *last = fields;
    for (const struct state_field *f = fields; f->name; last = f++) {
        int rc = decode_number(f, &text, base + f->offset, e);
        if (rc != ERR_OK)
            return rc;
    }
    return *text ? bad(last, "nothing behind it", e) : ERR_OK;
}

static int decode_text(const struct state_field *f, const json_t *v, char *at, struct err *e)
{
    size_t n = json_string_length(v);
    if (n >= f->size)
        return bad(f, "a shorter text", e);
    memcpy(at, json_string_value(v), n);
    at[n] = '\0';
    return ERR_OK;
}

static int decode_one(const struct state_field *f, const json_t *v, char *at, struct err *e)
{
    const char *text = json_string_value(v);
    if (f->type == STATE_STRUCT) /* elements of flat structs were objects once */
        return text && f->count != 1 && state_is_flat(f->sub) ? decode_flat(f->sub, text, at, e)
                                                              : state_decode(f->sub, v, at, e);
    if (!text)
        return bad(f, "a text", e);
    if (f->type == STATE_TEXT)
        return decode_text(f, v, at, e);
    int rc = decode_number(f, &text, at, e);
    return rc == ERR_OK && *text ? bad(f, "one number", e) : rc;
}

static int decode_field(const struct state_field *f, const json_t *v, char *base, struct err *e)
{
    if (f->count == 1)
        return decode_one(f, v, base + f->offset, e);
    size_t n = state_elements_used(f, base);
    if (!json_is_array(v) || json_array_size(v) != n)
        return bad(f, "an array of the stated length", e);
    for (size_t i = 0; i < n; i++) {
        int rc =
            decode_one(f, json_array_get(v, i), base + f->offset + i * state_element_size(f), e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

int state_decode(const struct state_field *fields, const json_t *v, void *state, struct err *e)
{
    for (const struct state_field *f = fields; f->name; f++) {
        const json_t *field = json_object_get(v, f->name);
        if (!field)
            return bad(f, "it to be there", e);
        int rc = decode_field(f, field, state, e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}
