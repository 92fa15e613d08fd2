/* The grammar is checked first (json_scan), so that building only walks. Finished values wait on a
 * stack until their container closes and takes them as its children; an open container keeps the
 * stack index of the one around it in n. */
#include "verifier/text/json_tree.h"

#include "common/hash.h"
#include "common/utf8.h"
#include "verifier/text/json_scan.h"

#include <stdlib.h>
#include <string.h>

enum { NO_PARENT = UINT32_MAX };

struct build {
    struct str s;
    size_t at;
    struct arena *arena;
    struct json_node *stack;
    uint32_t n, cap, open, n_values;
    struct str key;
    enum json_tree_result result;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
}

static uint64_t hash_of_type(enum json_tree_type type)
{
    return mix(type, 0x9E3779B97F4A7C15u);
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static uint32_t hex4(const char *p)
{
    return (uint32_t)(hex(p[0]) << 12 | hex(p[1]) << 8 | hex(p[2]) << 4 | hex(p[3]));
}

/* p stands behind the backslash; writes what it means, returns the bytes read. */
static size_t decode_escape(const char *p, char *to, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    if (*p != 'u') {
        const char *hit = strchr(from, *p);
        to[(*n)++] = plain[hit - from];
        return 1;
    }
    uint32_t cp = hex4(p + 1);
    bool is_pair = cp >= 0xD800 && cp < 0xDC00;
    if (is_pair)
        cp = 0x10000 + ((cp - 0xD800) << 10) + (hex4(p + 7) - 0xDC00);
    *n += utf8_encode(cp, to + *n);
    return is_pair ? 11 : 5;
}

/* s.p[at] is the opening quote. at moves behind the closing one. */
static struct str take_string(struct build *b)
{
    const char *start = b->s.p + b->at + 1, *p = start;
    bool is_plain = true;
    for (; *p != '"'; p += *p == '\\' ? 2 : 1)
        is_plain = is_plain && *p != '\\';
    struct str raw = {start, (size_t)(p - start)};
    b->at = (size_t)(p - b->s.p) + 1;
    if (is_plain)
        return raw;
    char *to = arena_alloc(b->arena, raw.n);
    size_t n = 0;
    for (size_t i = 0; to && i < raw.n;) {
        if (raw.p[i] == '\\')
            i += 1 + decode_escape(raw.p + i + 1, to, &n);
        else
            to[n++] = raw.p[i++];
    }
    b->result = to ? b->result : JSON_TREE_NO_MEMORY;
    return (struct str){to, to ? n : 0};
}

static void skip_between(struct build *b)
{
    while (b->at < b->s.n && memchr(" \t\n\r,:", b->s.p[b->at], 6))
        b->at++;
}

static bool make_room(struct build *b)
{
    if (b->n < b->cap)
        return true;
    uint32_t cap = b->cap ? b->cap * 2 : 64;
    struct json_node *more = reallocarray(b->stack, cap, sizeof *more);
    if (!more)
        return false;
    b->stack = more;
    b->cap = cap;
    return true;
}

/* A new value on the stack; NULL and the reason when it cannot be had. */
static struct json_node *push(struct build *b, enum json_tree_type type)
{
    if (b->n_values == JSON_TREE_MAX_VALUES || !make_room(b)) {
        b->result = b->n_values == JSON_TREE_MAX_VALUES ? JSON_TREE_LARGE : JSON_TREE_NO_MEMORY;
        return NULL;
    }
    struct json_node *v = &b->stack[b->n++];
    *v = (struct json_node){.type = (uint8_t)type, .id = b->n_values++, .key = b->key};
    v->hash = hash_of_type(type);
    b->key = (struct str){0};
    return v;
}

static void take_number(struct build *b)
{
    struct json_node *v = push(b, TREE_NUMBER);
    size_t start = b->at;
    while (b->at < b->s.n && strchr("+-.0123456789eE", b->s.p[b->at]) && b->s.p[b->at])
        b->at++;
    if (!v)
        return;
    if (!decimal_read(str_slice(b->s, start, b->at), b->arena, &v->number)) {
        b->result = JSON_TREE_NO_MEMORY;
        return;
    }
    v->hash = mix(v->hash, (uint64_t)v->number.exponent * 2 + v->number.is_negative);
    v->hash = mix(v->hash, hash64(v->number.digits.p, v->number.digits.n, 0));
}

uint64_t json_tree_hash_text(struct str text)
{
    return mix(hash_of_type(TREE_STRING), hash64(text.p, text.n, 0));
}

static void take_scalar(struct build *b, char c)
{
    if (c == '"') {
        struct str text = take_string(b);
        struct json_node *v = push(b, TREE_STRING);
        if (v) {
            v->text = text;
            v->hash = json_tree_hash_text(text);
        }
    } else if (c == 't' || c == 'f' || c == 'n') {
        push(b, c == 't' ? TREE_TRUE : c == 'f' ? TREE_FALSE : TREE_NULL);
        b->at += c == 'f' ? 5 : 4;
    } else {
        take_number(b);
    }
}

static void open_container(struct build *b, char c)
{
    struct json_node *v = push(b, c == '{' ? TREE_OBJECT : TREE_ARRAY);
    if (!v)
        return;
    v->n = b->open;
    b->open = b->n - 1;
    b->at++;
}

/* Of equal keys the later one comes first. */
static int compare_members(const void *x, const void *y)
{
    const struct json_node *a = x, *b = y;
    int order = str_compare(a->key, b->key);
    return order ? order : a->id < b->id ? 1 : -1;
}

static uint32_t sort_members(struct json_node *child, uint32_t n)
{
    uint32_t kept = 0;
    qsort(child, n, sizeof *child, compare_members);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || !str_eq(child[i].key, child[kept - 1].key))
            child[kept++] = child[i];
    return kept;
}

static void close_container(struct build *b)
{
    struct json_node *v = &b->stack[b->open];
    uint32_t n = b->n - b->open - 1;
    struct json_node *child = arena_array(b->arena, n ? n : 1, sizeof *child);
    if (!child) {
        b->result = JSON_TREE_NO_MEMORY;
        return;
    }
    if (n)
        memcpy(child, v + 1, n * sizeof *child);
    b->n = b->open + 1;
    b->open = v->n;
    b->at++;
    v->n = v->type == TREE_OBJECT ? sort_members(child, n) : n;
    v->child = child;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->type == TREE_OBJECT)
            v->hash = mix(v->hash, hash64(child[i].key.p, child[i].key.n, 0));
        v->hash = mix(v->hash, child[i].hash);
    }
}

static bool in_object(const struct build *b)
{
    return b->open != NO_PARENT && b->stack[b->open].type == TREE_OBJECT;
}

static void build_all(struct build *b)
{
    do {
        skip_between(b);
        char c = b->s.p[b->at];
        if (c == '}' || c == ']') {
            close_container(b);
            continue;
        }
        if (in_object(b)) {
            b->key = take_string(b);
            skip_between(b);
            c = b->s.p[b->at];
        }
        if (c == '{' || c == '[')
            open_container(b, c);
        else
            take_scalar(b, c);
    } while (b->open != NO_PARENT && b->result == JSON_TREE_OK);
}

enum json_tree_result json_tree_read(struct str text, struct arena *a, struct json_tree *out)
{
    *out = (struct json_tree){0};
    enum json_scan_result scanned = json_scan_text(text);
    if (scanned != JSON_SCAN_OK)
        return scanned == JSON_SCAN_DEEP ? JSON_TREE_LARGE : JSON_TREE_BROKEN;
    struct build b = {.s = text, .arena = a, .open = NO_PARENT};
    build_all(&b);
    if (b.result == JSON_TREE_OK) {
        out->root = arena_alloc(a, sizeof *out->root);
        b.result = out->root ? JSON_TREE_OK : JSON_TREE_NO_MEMORY;
    }
    if (b.result == JSON_TREE_OK) {
        *out->root = b.stack[0];
        out->n_values = b.n_values;
    }
    free(b.stack);
    return b.result;
}

const struct json_node *json_tree_get(const struct json_node *object, struct str key)
{
    if (object->type != TREE_OBJECT)
        return NULL;
    for (uint32_t low = 0, high = object->n; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        int order = str_compare(object->child[middle].key, key);
        if (order == 0)
            return &object->child[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
