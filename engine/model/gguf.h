/* engine/model/gguf.h - a GGUF file (version 2 and 3), mapped and checked.
 *
 * Every count, length and offset is checked against the file's size before use: a file is
 * untrusted input. Strings and tensor data are borrowed from the mapping until gguf_close.
 * Format: GGUF specification in the ggml repository, docs/gguf.md. Immutable after open. */
#ifndef ENGINE_MODEL_GGUF_H
#define ENGINE_MODEL_GGUF_H

#include "common/err.h"
#include "common/str.h"

#include <stdint.h>

struct gguf;

enum gguf_type { /* metadata value types, numbers as in the file */
                 GGUF_U8,
                 GGUF_I8,
                 GGUF_U16,
                 GGUF_I16,
                 GGUF_U32,
                 GGUF_I32,
                 GGUF_F32,
                 GGUF_BOOL,
                 GGUF_STRING,
                 GGUF_ARRAY,
                 GGUF_U64,
                 GGUF_I64,
                 GGUF_F64,
                 GGUF_TYPE_COUNT
};

struct gguf_array { /* strings: use gguf_array_str; numbers: gguf_array_i64 / f64 */
    enum gguf_type type;
    uint64_t n;
    const struct gguf *file;
    const void *data;
    const struct str *strings; /* [n] when type is GGUF_STRING, else NULL */
};

struct gguf_tensor {
    struct str name;
    uint32_t n_dim;
    uint64_t dim[4]; /* dim[0] is the contiguous one; 1 beyond n_dim */
    uint32_t type;   /* ggml type number, see kernels/dtype.h */
    const void *data;
    size_t bytes;
};

MUST_USE int gguf_open(struct gguf **out, const char *path, struct err *e);
void gguf_close(struct gguf *g);
size_t gguf_file_bytes(const struct gguf *g);
/* XXH3 of the whole file, 32 hex digits and NUL. Reads every page. */
void gguf_content_hash(const struct gguf *g, char out[33]);

/* ERR_NOT_FOUND when absent; ERR_INVALID when of another type, with key and both types. */
MUST_USE int gguf_get_str(const struct gguf *g, const char *key, struct str *out, struct err *e);
MUST_USE int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out, struct err *e);
MUST_USE int gguf_get_f64(const struct gguf *g, const char *key, double *out, struct err *e);
MUST_USE int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *e);
MUST_USE int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out,
                            struct err *e);
/* i < a->n, any integer type; any number type for f64. 0 for another type. */
int64_t gguf_array_i64(const struct gguf_array *a, uint64_t i);
double gguf_array_f64(const struct gguf_array *a, uint64_t i);

/* NULL when absent. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);
uint64_t gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);
/* The data of t has been copied: its pages may leave memory. It stays readable. */
void gguf_release(const struct gguf *g, const struct gguf_tensor *t);
#endif
