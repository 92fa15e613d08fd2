/* A small file made by hand, then every way of breaking it: cut at each byte, wrong counts, types,
 * offsets, names. */
#include "common/test.h"

#include "common/io.h"
#include "common/rng.h"
#include "engine/model/gguf.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_text(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    buf_put_c(b, s);
}

static void put_tensor(struct buf *b, const char *name, uint32_t type, uint64_t d0, uint64_t d1,
                       uint64_t offset)
{
    put_text(b, name);
    put_u32(b, 2);
    put_u64(b, d0);
    put_u64(b, d1);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Six keys, two tensors. Keys end where the caller cuts; see the order below. */
static void make_file(struct buf *b)
{
    buf_put_c(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, 2);
    put_u64(b, 6);
    put_text(b, "general.architecture"), put_u32(b, GGUF_STRING), put_text(b, "llama");
    put_text(b, "n"), put_u32(b, GGUF_U32), put_u32(b, 7);
    put_text(b, "real"), put_u32(b, GGUF_F32), buf_put(b, &(float){0.5f}, 4);
    put_text(b, "flag"), put_u32(b, GGUF_BOOL), buf_put_char(b, 1);
    put_text(b, "words"), put_u32(b, GGUF_ARRAY), put_u32(b, GGUF_STRING), put_u64(b, 2);
    put_text(b, "one"), put_text(b, "");
    put_text(b, "ints"), put_u32(b, GGUF_ARRAY), put_u32(b, GGUF_I32), put_u64(b, 3);
    put_u32(b, 1), put_u32(b, (uint32_t)-2), put_u32(b, 3);
    put_tensor(b, "a", 0, 4, 2, 0);
    put_tensor(b, "b", 8, 32, 1, 32);
    while (b->n % 32)
        buf_put_char(b, 0);
    for (int i = 0; i < 8; i++)
        buf_put(b, &(float){(float)i}, 4);
    for (int i = 0; i < 34; i++)
        buf_put_char(b, 1);
}

static int open_bytes(struct gguf **g, struct str bytes, struct err *e)
{
    char path[] = "/tmp/milepost_gguf_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(io_write_file(path, bytes, e), e);
    int rc = gguf_open(g, path, e);
    unlink(path);
    return rc;
}

static void test_reads_everything(void **state)
{
    (void)state;
    struct buf b;
    struct err e = {0};
    struct gguf *g;
    buf_init(&b, 1 * MiB);
    make_file(&b);
    assert_ok(open_bytes(&g, buf_str(&b), &e), &e);
    struct str s;
    uint64_t u;
    double d;
    bool flag = false;
    struct gguf_array a;
    assert_ok(gguf_get_str(g, "general.architecture", &s, &e), &e);
    assert_str(s, "llama");
    assert_ok(gguf_get_u64(g, "n", &u, &e), &e);
    assert_int_equal(u, 7);
    assert_ok(gguf_get_f64(g, "real", &d, &e), &e);
    assert_true(d == 0.5);
    assert_ok(gguf_get_bool(g, "flag", &flag, &e), &e);
    assert_true(flag);
    assert_ok(gguf_get_array(g, "words", &a, &e), &e);
    assert_str(a.strings[0], "one");
    assert_str(a.strings[1], "");
    assert_ok(gguf_get_array(g, "ints", &a, &e), &e);
    assert_int_equal(gguf_array_i64(&a, 1), -2);
    assert_true(gguf_array_f64(&a, 2) == 3 && gguf_array_i64(&a, 3) == 0);
    assert_int_equal(gguf_get_str(g, "none", &s, &e), ERR_NOT_FOUND);
    assert_int_equal(gguf_get_str(g, "n", &s, &e), ERR_INVALID);
    assert_int_equal(gguf_get_u64(g, "real", &u, &e), ERR_INVALID);
    const struct gguf_tensor *t = gguf_find_tensor(g, "a");
    assert_true(t && t->bytes == 32 && ((const float *)t->data)[5] == 5);
    t = gguf_find_tensor(g, "b");
    assert_true(t && t->bytes == 34 && ((const char *)t->data)[33] == 1);
    assert_null(gguf_find_tensor(g, "c"));
    gguf_close(g);
    buf_free(&b);
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    struct buf b;
    struct err e;
    struct gguf *g;
    buf_init(&b, 1 * MiB);
    make_file(&b);
    for (size_t n = 0; n < b.n; n++) {
        assert_int_not_equal(open_bytes(&g, (struct str){b.p, n}, &e), ERR_OK);
        assert_null(g);
        assert_true(e.msg[0] != '\0');
    }
    buf_free(&b);
}

/* Offsets of fields in make_file's bytes. */
enum { AT_VERSION = 4, AT_TENSORS = 8, AT_KEYS = 16, AT_FIRST_KEY = 24 };

static void test_broken_fields(void **state)
{
    (void)state;
    static const struct {
        size_t at, n;
        uint64_t value;
        int want;
    } rows[] = {
        {0, 1, 'X', ERR_INVALID},
        {AT_VERSION, 4, 1, ERR_UNSUPPORTED},
        {AT_VERSION, 4, 0x03000000, ERR_UNSUPPORTED},
        {AT_TENSORS, 8, UINT64_MAX, ERR_CORRUPT},
        {AT_TENSORS, 8, 3, ERR_CORRUPT},
        {AT_KEYS, 8, UINT64_MAX, ERR_CORRUPT},
        {AT_FIRST_KEY, 8, UINT64_MAX - 8, ERR_CORRUPT},
        {AT_FIRST_KEY + 8 + 20, 4, 99, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        struct err e;
        struct gguf *g;
        buf_init(&b, 1 * MiB);
        make_file(&b);
        memcpy(b.p + rows[i].at, &rows[i].value, rows[i].n);
        assert_int_equal(open_bytes(&g, buf_str(&b), &e), rows[i].want);
        buf_free(&b);
    }
}

static void test_random_damage_never_crashes(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 11);
    for (int round = 0; round < 1500; round++) {
        struct buf b;
        struct err e;
        struct gguf *g;
        buf_init(&b, 1 * MiB);
        make_file(&b);
        for (uint64_t k = rng_below(&r, 4) + 1; k > 0; k--)
            b.p[rng_below(&r, b.n)] = (char)rng_below(&r, 256);
        if (open_bytes(&g, buf_str(&b), &e) == ERR_OK) {
            for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
                const struct gguf_tensor *t = gguf_tensor_at(g, i);
                const volatile char *p = t->data; /* the last byte is readable */
                (void)p[t->bytes - 1];
            }
            gguf_close(g);
        }
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_everything),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_broken_fields),
        cmocka_unit_test(test_random_damage_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
