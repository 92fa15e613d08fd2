/* GGUF reader. The file is mapped read-only; a cursor that knows the end checks every read, counts
 * are bounded by what the remaining bytes could hold, so no field of the file can make us allocate
 * or read more than its size allows. */
#include "engine/model/gguf.h"

#include "common/arena.h"
#include "common/hash.h"
#include "kernels/dtype.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_KEYS = 4096, MAX_TENSORS = 65536, MAX_NAME = 256, MIN_ALIGN = 8, MAX_ALIGN = 65536 };

struct value {
    struct str key;
    enum gguf_type type;
    const uint8_t *at; /* number, or the array's first element */
    struct str text;
    struct gguf_array array;
};

struct gguf {
    const uint8_t *base;
    size_t bytes;
    struct arena arena;
    struct value *values;
    struct gguf_tensor *tensors;
    uint64_t n_values, n_tensors, alignment;
    uint32_t *by_name; /* open addressing: tensor index + 1 */
    size_t n_slots;
};

struct cursor {
    const uint8_t *p, *end;
    const uint8_t *base;
};

static const size_t TYPE_BYTES[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

static const char *const TYPE_NAMES[GGUF_TYPE_COUNT] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

static size_t remaining(const struct cursor *c)
{
    return (size_t)(c->end - c->p);
}

static int truncated(const struct cursor *c, const char *what, struct err *e)
{
    return err_set(e, ERR_CORRUPT,
                   "gguf: the file ends inside %s at byte %zu: it is cut off, "
                   "fetch it again",
                   what, (size_t)(c->p - c->base));
}

static int read_bytes(struct cursor *c, void *out, size_t n, const char *what, struct err *e)
{
    if (remaining(c) < n)
        return truncated(c, what, e);
    memcpy(out, c->p, n);
    c->p += n;
    return ERR_OK;
}

static int read_text(struct cursor *c, struct str *out, const char *what, struct err *e)
{
    uint64_t n;
    int rc = read_bytes(c, &n, sizeof n, what, e);
    if (rc != ERR_OK)
        return rc;
    if (n > remaining(c))
        return truncated(c, what, e);
    *out = (struct str){(const char *)c->p, (size_t)n};
    c->p += n;
    return ERR_OK;
}

static int read_string_array(struct gguf *g, struct cursor *c, struct gguf_array *a, struct err *e)
{
    int rc = ERR_OK;
    if (a->n > remaining(c) / sizeof(uint64_t)) /* each string has at least its length */
        return truncated(c, "an array of strings", e);
    struct str *strings = arena_array(&g->arena, (size_t)a->n + 1, sizeof *strings);
    if (!strings)
        return err_set(e, ERR_NOMEM, "gguf: array of %llu strings", (unsigned long long)a->n);
    for (uint64_t i = 0; i < a->n && rc == ERR_OK; i++)
        rc = read_text(c, &strings[i], "an array of strings", e);
    a->strings = strings;
    return rc;
}

static int read_array(struct gguf *g, struct cursor *c, struct value *v, struct err *e)
{
    uint32_t type;
    int rc;
    TRY(read_bytes(c, &type, sizeof type, "an array", e));
    TRY(read_bytes(c, &v->array.n, sizeof v->array.n, "an array", e));
    if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY)
        return err_set(e, ERR_CORRUPT,
                       "gguf: key " STR_FMT ": array of type %u: numbers, booleans "
                       "and strings are allowed",
                       STR_ARG(v->key), type);
    v->array.type = (enum gguf_type)type;
    v->array.file = g;
    v->array.data = c->p;
    if (type == GGUF_STRING)
        return read_string_array(g, c, &v->array, e);
    if (v->array.n > remaining(c) / TYPE_BYTES[type])
        return truncated(c, "an array", e);
    c->p += v->array.n * TYPE_BYTES[type];
out:
    return rc;
}

static int read_value(struct gguf *g, struct cursor *c, struct value *v, struct err *e)
{
    uint32_t type;
    int rc;
    TRY(read_text(c, &v->key, "a key", e));
    TRY(read_bytes(c, &type, sizeof type, "a value's type", e));
    if (type >= GGUF_TYPE_COUNT)
        return err_set(e, ERR_CORRUPT, "gguf: key " STR_FMT " has type %u: 0 to %d are known",
                       STR_ARG(v->key), type, GGUF_TYPE_COUNT - 1);
    v->type = (enum gguf_type)type;
    v->at = c->p;
    if (v->type == GGUF_STRING)
        return read_text(c, &v->text, "a string", e);
    if (v->type == GGUF_ARRAY)
        return read_array(g, c, v, e);
    if (remaining(c) < TYPE_BYTES[type])
        return truncated(c, "a number", e);
    c->p += TYPE_BYTES[type];
out:
    return rc;
}

static int check_dims(struct gguf_tensor *t, struct err *e)
{
    uint64_t elements = 1;
    uint32_t block;
    size_t block_bytes;
    if (!dtype_layout(t->type, &block, &block_bytes))
        return err_set(e, ERR_UNSUPPORTED,
                       "gguf: tensor " STR_FMT " has type %u, which is not "
                       "known; known: %s",
                       STR_ARG(t->name), t->type, dtype_known_names());
    for (uint32_t i = 0; i < 4; i++)
        if (t->dim[i] == 0 || __builtin_mul_overflow(elements, t->dim[i], &elements))
            return err_set(e, ERR_CORRUPT, "gguf: tensor " STR_FMT ": dimension %u is %llu",
                           STR_ARG(t->name), i, (unsigned long long)t->dim[i]);
    if (t->dim[0] % block != 0)
        return err_set(e, ERR_CORRUPT,
                       "gguf: tensor " STR_FMT ": row of %llu is not a multiple of "
                       "its block of %u",
                       STR_ARG(t->name), (unsigned long long)t->dim[0], block);
    if (!size_mul((size_t)(elements / block), block_bytes, &t->bytes))
        return err_set(e, ERR_CORRUPT, "gguf: tensor " STR_FMT ": size overflows",
                       STR_ARG(t->name));
    return ERR_OK;
}

/* data holds the offset until the start of the data section is known. */
static int read_tensor(struct cursor *c, struct gguf_tensor *t, struct err *e)
{
    int rc;
    uint64_t offset;
    TRY(read_text(c, &t->name, "a tensor's name", e));
    if (t->name.n == 0 || t->name.n > MAX_NAME)
        return err_set(e, ERR_CORRUPT, "gguf: tensor name of %zu bytes: 1 to %d are allowed",
                       t->name.n, MAX_NAME);
    TRY(read_bytes(c, &t->n_dim, sizeof t->n_dim, "a tensor's shape", e));
    if (t->n_dim == 0 || t->n_dim > 4)
        return err_set(e, ERR_CORRUPT,
                       "gguf: tensor " STR_FMT " has %u dimensions: 1 to 4 are "
                       "allowed",
                       STR_ARG(t->name), t->n_dim);
    for (uint32_t i = 0; i < 4; i++)
        t->dim[i] = 1;
    TRY(read_bytes(c, t->dim, t->n_dim * sizeof t->dim[0], "a tensor's shape", e));
    TRY(read_bytes(c, &t->type, sizeof t->type, "a tensor's type", e));
    TRY(read_bytes(c, &offset, sizeof offset, "a tensor's offset", e));
    t->data = (const void *)(uintptr_t)offset;
    return check_dims(t, e);
out:
    return rc;
}

static int place_tensors(struct gguf *g, size_t data_start, struct err *e)
{
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        uint64_t offset = (uint64_t)(uintptr_t)t->data;
        size_t room = g->bytes - data_start;
        if (offset % g->alignment || offset > room || t->bytes > room - offset)
            return err_set(e, ERR_CORRUPT,
                           "gguf: tensor " STR_FMT ": bytes %llu to %llu+%zu of the "
                           "data, which has %zu (alignment %llu): cut off or corrupt",
                           STR_ARG(t->name), (unsigned long long)offset, (unsigned long long)offset,
                           t->bytes, room, (unsigned long long)g->alignment);
        t->data = g->base + data_start + offset;
    }
    return ERR_OK;
}

static size_t slot_of(const struct gguf *g, struct str name)
{
    return hash64(name.p, name.n, 0) & (g->n_slots - 1);
}

static int index_names(struct gguf *g, struct err *e)
{
    g->n_slots = 16;
    while (g->n_slots < 2 * g->n_tensors)
        g->n_slots *= 2;
    g->by_name = arena_array(&g->arena, g->n_slots, sizeof *g->by_name);
    if (!g->by_name)
        return err_set(e, ERR_NOMEM, "gguf: index of %llu tensors",
                       (unsigned long long)g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        size_t slot = slot_of(g, g->tensors[i].name);
        for (; g->by_name[slot]; slot = (slot + 1) & (g->n_slots - 1))
            if (str_eq(g->tensors[g->by_name[slot] - 1].name, g->tensors[i].name))
                return err_set(e, ERR_CORRUPT, "gguf: tensor " STR_FMT " stands twice in the file",
                               STR_ARG(g->tensors[i].name));
        g->by_name[slot] = (uint32_t)i + 1;
    }
    return ERR_OK;
}

static int read_header(struct gguf *g, struct cursor *c, struct err *e)
{
    char magic[4];
    uint32_t version;
    int rc;
    TRY(read_bytes(c, magic, sizeof magic, "the header", e));
    if (memcmp(magic, "GGUF", 4) != 0)
        return err_set(e, ERR_INVALID, "not a GGUF file: it does not start with 'GGUF'");
    TRY(read_bytes(c, &version, sizeof version, "the header", e));
    if (version != 2 && version != 3)
        return err_set(e, ERR_UNSUPPORTED,
                       "GGUF version %u (big-endian files read so too): 2 and 3 "
                       "are supported, convert the file again",
                       version);
    TRY(read_bytes(c, &g->n_tensors, sizeof g->n_tensors, "the header", e));
    TRY(read_bytes(c, &g->n_values, sizeof g->n_values, "the header", e));
    if (g->n_tensors > MAX_TENSORS || g->n_values > MAX_KEYS)
        return err_set(e, ERR_CORRUPT, "gguf: %llu tensors and %llu keys: at most %d and %d",
                       (unsigned long long)g->n_tensors, (unsigned long long)g->n_values,
                       MAX_TENSORS, MAX_KEYS);
    g->values = arena_array(&g->arena, (size_t)g->n_values + 1, sizeof *g->values);
    g->tensors = arena_array(&g->arena, (size_t)g->n_tensors + 1, sizeof *g->tensors);
    if (!g->values || !g->tensors)
        return err_set(e, ERR_NOMEM, "gguf: tables");
out:
    return rc;
}

static int read_alignment(struct gguf *g, struct err *e)
{
    g->alignment = 32;
    int rc = gguf_get_u64(g, "general.alignment", &g->alignment, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    bool is_power = g->alignment && (g->alignment & (g->alignment - 1)) == 0;
    if (!is_power || g->alignment < MIN_ALIGN || g->alignment > MAX_ALIGN)
        return err_set(e, ERR_CORRUPT,
                       "gguf: general.alignment is %llu: a power of two from %d to "
                       "%d is allowed",
                       (unsigned long long)g->alignment, MIN_ALIGN, MAX_ALIGN);
    return ERR_OK;
}

static int parse(struct gguf *g, struct err *e)
{
    struct cursor c = {.p = g->base, .end = g->base + g->bytes, .base = g->base};
    uint64_t n_values = 0;
    int rc;
    TRY(read_header(g, &c, e));
    uint64_t all_values = g->n_values;
    for (g->n_values = 0; n_values < all_values; n_values++) {
        TRY(read_value(g, &c, &g->values[n_values], e));
        g->n_values = n_values + 1;
    }
    for (uint64_t i = 0; i < g->n_tensors; i++)
        TRY(read_tensor(&c, &g->tensors[i], e));
    TRY(read_alignment(g, e));
    size_t header = (size_t)(c.p - g->base);
    size_t start = (header + g->alignment - 1) & ~(size_t)(g->alignment - 1);
    if (start > g->bytes)
        start = g->bytes;
    TRY(place_tensors(g, start, e));
    TRY(index_names(g, e));
out:
    return rc;
}

static int map_file(struct gguf *g, const char *path, struct err *e)
{
    struct stat st;
    int rc = ERR_OK, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno, "model file");
    if (fstat(fd, &st) != 0)
        rc = err_set_sys(e, ERR_IO, errno, "model file");
    else if (!S_ISREG(st.st_mode) || st.st_size == 0)
        rc = err_set(e, ERR_INVALID, "not a GGUF file: it is empty or not a regular file");
    if (rc == ERR_OK) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        g->base = p == MAP_FAILED ? NULL : p;
        g->bytes = (size_t)st.st_size;
        if (!g->base)
            rc = err_set_sys(e, ERR_IO, errno, "mapping the model file");
    }
    close(fd);
    return rc;
}

int gguf_open(struct gguf **out, const char *path, struct err *e)
{
    *out = NULL;
    struct gguf *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_NOMEM, "gguf");
    int rc = map_file(g, path, e);
    /* Tables hold at most a small multiple of the file: one str per 8 bytes of it. */
    arena_init(&g->arena, 4 * g->bytes + (1u << 20) * 16);
    if (rc == ERR_OK)
        rc = parse(g, e);
    if (rc != ERR_OK) {
        gguf_close(g);
        return e ? err_wrap(e, "%s", path) : rc;
    }
    *out = g;
    return ERR_OK;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    if (g->base)
        munmap((void *)(uintptr_t)g->base, g->bytes);
    arena_free(&g->arena);
    free(g);
}

size_t gguf_file_bytes(const struct gguf *g)
{
    return g->bytes;
}

void gguf_content_hash(const struct gguf *g, char out[33])
{
    hash128_hex(g->base, g->bytes, out);
    (void)madvise((void *)(uintptr_t)g->base, g->bytes, MADV_DONTNEED);
}

static int find_value(const struct gguf *g, const char *key, const struct value **out,
                      struct err *e)
{
    for (uint64_t i = 0; i < g->n_values; i++) {
        if (str_eq_c(g->values[i].key, key)) {
            *out = &g->values[i];
            return ERR_OK;
        }
    }
    return err_set(e, ERR_NOT_FOUND, "gguf: key %s is missing", key);
}

static int wrong_type(const struct value *v, const char *want, struct err *e)
{
    return err_set(e, ERR_INVALID, "gguf: key " STR_FMT " is of type %s: %s is expected",
                   STR_ARG(v->key), TYPE_NAMES[v->type], want);
}

int gguf_get_str(const struct gguf *g, const char *key, struct str *out, struct err *e)
{
    const struct value *v;
    int rc = find_value(g, key, &v, e);
    if (rc != ERR_OK)
        return rc;
    if (v->type != GGUF_STRING)
        return wrong_type(v, "a string", e);
    *out = v->text;
    return ERR_OK;
}

/* One number of any type at p; false when it is none. Exactly one of i and d is exact: integers
 * give both, reals give d. */
static bool load_number(enum gguf_type type, const uint8_t *p, int64_t *i, double *d)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } n = {0};
    if (type >= GGUF_TYPE_COUNT || TYPE_BYTES[type] == 0)
        return false;
    memcpy(&n, p, TYPE_BYTES[type]);
    const int64_t whole[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = n.u8,        [GGUF_I8] = n.i8,   [GGUF_U16] = n.u16,
        [GGUF_I16] = n.i16,      [GGUF_U32] = n.u32, [GGUF_I32] = n.i32,
        [GGUF_BOOL] = n.u8 != 0, [GGUF_U64] = n.i64, [GGUF_I64] = n.i64};
    *i = whole[type];
    *d = type == GGUF_F32 ? (double)n.f32 : type == GGUF_F64 ? n.f64 : (double)*i;
    return true;
}

static bool is_real(enum gguf_type t)
{
    return t == GGUF_F32 || t == GGUF_F64;
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out, struct err *e)
{
    const struct value *v;
    int64_t i = 0;
    double d;
    int rc = find_value(g, key, &v, e);
    if (rc != ERR_OK)
        return rc;
    if (v->type == GGUF_BOOL || is_real(v->type) || !load_number(v->type, v->at, &i, &d))
        return wrong_type(v, "an unsigned integer", e);
    if (i < 0)
        return err_set(e, ERR_INVALID, "gguf: key %s is out of range", key);
    *out = (uint64_t)i;
    return ERR_OK;
}

int gguf_get_f64(const struct gguf *g, const char *key, double *out, struct err *e)
{
    const struct value *v;
    int64_t i;
    int rc = find_value(g, key, &v, e);
    if (rc != ERR_OK)
        return rc;
    if (v->type == GGUF_BOOL || !load_number(v->type, v->at, &i, out))
        return wrong_type(v, "a number", e);
    return ERR_OK;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *e)
{
    const struct value *v;
    int rc = find_value(g, key, &v, e);
    if (rc != ERR_OK)
        return rc;
    if (v->type != GGUF_BOOL)
        return wrong_type(v, "a boolean", e);
    *out = *v->at != 0;
    return ERR_OK;
}

int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out, struct err *e)
{
    const struct value *v;
    int rc = find_value(g, key, &v, e);
    if (rc != ERR_OK)
        return rc;
    if (v->type != GGUF_ARRAY)
        return wrong_type(v, "an array", e);
    *out = v->array;
    return ERR_OK;
}

int64_t gguf_array_i64(const struct gguf_array *a, uint64_t i)
{
    int64_t whole = 0;
    double real;
    if (i < a->n && !is_real(a->type))
        (void)load_number(a->type, (const uint8_t *)a->data + i * TYPE_BYTES[a->type], &whole,
                          &real);
    return whole;
}

double gguf_array_f64(const struct gguf_array *a, uint64_t i)
{
    int64_t whole;
    double real = 0;
    if (i < a->n)
        (void)load_number(a->type, (const uint8_t *)a->data + i * TYPE_BYTES[a->type], &whole,
                          &real);
    return real;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    struct str wanted = str_from(name);
    for (size_t slot = slot_of(g, wanted); g->by_name[slot]; slot = (slot + 1) & (g->n_slots - 1))
        if (str_eq(g->tensors[g->by_name[slot] - 1].name, wanted))
            return &g->tensors[g->by_name[slot] - 1];
    return NULL;
}

uint64_t gguf_tensor_count(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

void gguf_release(const struct gguf *g, const struct gguf_tensor *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = (size_t)((const uint8_t *)t->data - g->base), to = from + t->bytes;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (to > from)
        (void)madvise((void *)(uintptr_t)(g->base + from), to - from, MADV_DONTNEED);
}
