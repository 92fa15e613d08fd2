/* controller/policies/state_codec.h - exact JSON text of a plain struct, driven by a table.
 *
 * Numbers are texts ("0x1.8p+1", hexadecimal integers), so that encode(decode(x)) is x to the last
 * bit on every machine. State structs hold only double, uint64_t, uint32_t, bool, char[] and
 * structs of those. Arrays with a counter write only the part in use; the counter is listed before
 * them. In an array a struct of single numbers is one text ("1 0x1p-1 0"), in the table's order. */
#ifndef CONTROLLER_POLICIES_STATE_CODEC_H
#define CONTROLLER_POLICIES_STATE_CODEC_H

#include "common/json.h"

#include <stddef.h>

enum { STATE_MAX_BYTES = 16 * 1024 * 1024 };

enum state_type { STATE_F64, STATE_U64, STATE_U32, STATE_BOOL, STATE_TEXT, STATE_STRUCT };

#define STATE_NO_COUNTER ((size_t)-1)

struct state_field {
    const char *name; /* NULL ends a table */
    enum state_type type;
    size_t offset;
    size_t size;    /* of one element; of a TEXT's buffer; largest integer allowed, 0 = any */
    size_t count;   /* 1 = not an array */
    size_t counter; /* offset of the uint32_t that says how many elements are in use */
    const struct state_field *sub;
};

#define STATE_NUMBER(T, m, type)                                                                   \
    {                                                                                              \
#m, type, offsetof(T, m), 0, 1, STATE_NO_COUNTER, NULL                                     \
    }
/* An integer that is used as an index or a count: a larger one in the text is refused. */
#define STATE_LIMITED(T, m, type, most)                                                            \
    {                                                                                              \
#m, type, offsetof(T, m), most, 1, STATE_NO_COUNTER, NULL                                  \
    }
#define STATE_NUMBERS(T, m, type, n)                                                               \
    {                                                                                              \
#m, type, offsetof(T, m), 0, n, STATE_NO_COUNTER, NULL                                     \
    }
#define STATE_CHARS(T, m)                                                                          \
    {                                                                                              \
#m, STATE_TEXT, offsetof(T, m), sizeof(((T *)0)->m), 1, STATE_NO_COUNTER, NULL             \
    }
#define STATE_TEXTS(T, m, n)                                                                       \
    {                                                                                              \
#m, STATE_TEXT, offsetof(T, m), sizeof(((T *)0)->m[0]), n, STATE_NO_COUNTER, NULL          \
    }
#define STATE_SUB(T, m, fields)                                                                    \
    {                                                                                              \
#m, STATE_STRUCT, offsetof(T, m), sizeof(((T *)0)->m), 1, STATE_NO_COUNTER, fields         \
    }
#define STATE_SUBS(T, m, n, fields)                                                                \
    {                                                                                              \
#m, STATE_STRUCT, offsetof(T, m), sizeof(((T *)0)->m[0]), n, STATE_NO_COUNTER, fields      \
    }
#define STATE_USED(T, m, n, used, fields)                                                          \
    {                                                                                              \
#m, STATE_STRUCT, offsetof(T, m), sizeof(((T *)0)->m[0]), n, offsetof(T, used), fields     \
    }
#define STATE_END                                                                                  \
    {                                                                                              \
        NULL, STATE_U32, 0, 0, 0, 0, NULL                                                          \
    }

/* Appends the object's text; out says whether there was room. No field: no object. */
void state_write(const struct state_field *fields, const void *state, struct buf *out);
/* New object; NULL = no memory. */
json_t *state_encode(const struct state_field *fields, const void *state);

/* Fills a zeroed state. Every field must be there: ERR_CORRUPT names the one that is not. */
MUST_USE int state_decode(const struct state_field *fields, const json_t *v, void *state,
                          struct err *e);

/* What every reader and writer of a table needs. */
size_t state_element_size(const struct state_field *f);
/* How many elements of the array in this struct count; never more than it holds. */
size_t state_elements_used(const struct state_field *f, const char *base);
/* All its fields are single numbers. */
bool state_is_flat(const struct state_field *fields);
/* False: out of the range of its type, or of the table. */
bool state_store_unsigned(const struct state_field *f, uint64_t value, char *at);

/* Tables of the statistics' structs. */
extern const struct state_field BETTING_FIELDS[], CONFSEQ_FIELDS[], EDETECTOR_FIELDS[],
    BLOCKS_FIELDS[], ADMISSION_FIELDS[], SRM_FIELDS[], UNITS_FIELDS[];

#endif
