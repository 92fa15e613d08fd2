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

static size_t element_size(const struct state_field *f)
{
    return f->type == STATE_TEXT || f->type == STATE_STRUCT ? f->size : NUMBER_SIZE[f->type];
}

static size_t elements_used(const struct state_field *f, const char *base)
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

static void store_unsigned(enum state_type type, char *at, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    bool flag = value != 0;
    if (type == STATE_U64)
        memcpy(at, &value, sizeof value);
    else if (type == STATE_U32)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &flag, sizeof flag);
}

static json_t *encode_one(const struct state_field *f, const char *at)
{
    char text[40];
    if (f->type == STATE_STRUCT)
        return state_encode(f->sub, at);
    if (f->type == STATE_TEXT)
        return json_string(at);
    if (f->type == STATE_F64) {
        double d;
        memcpy(&d, at, sizeof d);
        snprintf(text, sizeof text, "%a", d);
    } else {
        snprintf(text, sizeof text, "%" PRIx64, load_unsigned(f->type, at));
    }
    return json_string(text);
}

static json_t *encode_field(const struct state_field *f, const char *base)
{
    if (f->count == 1)
        return encode_one(f, base + f->offset);
    json_t *array = json_array();
    size_t n = elements_used(f, base);
    for (size_t i = 0; array && i < n; i++)
        if (json_array_append_new(array, encode_one(f, base + f->offset + i * element_size(f)))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

json_t *state_encode(const struct state_field *fields, const void *state)
{
    json_t *object = json_object();
    for (const struct state_field *f = fields; object && f->name; f++)
        if (json_object_set_new(object, f->name, encode_field(f, state))) {
            json_decref(object);
            object = NULL;
        }
    return object;
}

static int bad(const struct state_field *f, const char *want, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "policy state: field \"%s\": want %s; replay the rows instead",
                   f->name, want);
}

static int decode_f64(const struct state_field *f, const char *text, char *at, struct err *e)
{
    char *end;
    double d = strtod(text, &end);
    if (end == text || *end)
        return bad(f, "a hexadecimal float", e);
    memcpy(at, &d, sizeof d);
    return ERR_OK;
}

static int decode_unsigned(const struct state_field *f, const char *text, char *at, struct err *e)
{
    static const uint64_t MOST[] = {
        [STATE_U64] = UINT64_MAX, [STATE_U32] = UINT32_MAX, [STATE_BOOL] = 1};
    char *end;
    errno = 0;
    unsigned long long u = strtoull(text, &end, 16);
    if (end == text || *end || errno || u > MOST[f->type] || (f->size && u > f->size) ||
        *text == '-')
        return bad(f, "a hexadecimal integer in range", e);
    store_unsigned(f->type, at, u);
    return ERR_OK;
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
    if (f->type == STATE_STRUCT)
        return state_decode(f->sub, v, at, e);
    if (!json_is_string(v))
        return bad(f, "a text", e);
    if (f->type == STATE_TEXT)
        return decode_text(f, v, at, e);
    if (f->type == STATE_F64)
        return decode_f64(f, json_string_value(v), at, e);
    return decode_unsigned(f, json_string_value(v), at, e);
}

static int decode_field(const struct state_field *f, const json_t *v, char *base, struct err *e)
{
    if (f->count == 1)
        return decode_one(f, v, base + f->offset, e);
    size_t n = elements_used(f, base);
    if (!json_is_array(v) || json_array_size(v) != n)
        return bad(f, "an array of the stated length", e);
    for (size_t i = 0; i < n; i++) {
        int rc = decode_one(f, json_array_get(v, i), base + f->offset + i * element_size(f), e);
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
