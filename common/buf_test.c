/* Growth up to the maximum, sticky failure, JSON escapes, numbers. */
#include "common/test.h"

#include "common/buf.h"
#include "common/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_limit_is_sticky(void **state)
{
    (void)state;
    struct buf b;
    struct err e;
    buf_init(&b, 10);
    buf_put_c(&b, "12345");
    buf_put_c(&b, "678901");
    assert_true(b.failed);
    buf_put_c(&b, "x");
    assert_str(buf_str(&b), "12345");
    assert_int_equal(buf_check(&b, "reply", &e), ERR_NOMEM);
    buf_reset(&b);
    buf_put_c(&b, "1234567890");
    assert_false(b.failed);
    assert_str(buf_str(&b), "1234567890");
    buf_put_char(&b, 'x'); /* there is memory left, but no more is allowed */
    assert_true(b.failed);
    assert_str(buf_str(&b), "1234567890");
    buf_free(&b);
}

static void test_printf(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 * MiB);
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_int_equal(b.n, 10 * 2 + 90 * 3 + 900 * 4);
    buf_free(&b);
}

static void test_json_escapes(void **state)
{
    (void)state;
    struct {
        struct str in;
        const char *want;
    } rows[] = {
        {STR("plain \xC3\xA9\xE2\x82\xAC"), "plain \xC3\xA9\xE2\x82\xAC"},
        {STR("a\"b\\c"), "a\\\"b\\\\c"},
        {STR("\n\r\t\b\f\x01\x1f"), "\\n\\r\\t\\b\\f\\u0001\\u001f"},
        {STR("a\0b"), "a\\u0000b"},
        {STR("\xFFz\xE2\x82"), "\xEF\xBF\xBDz\xEF\xBF\xBD"},
        {STR("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        buf_init(&b, 1 * KiB);
        buf_put_json(&b, rows[i].in);
        assert_str(buf_str(&b), rows[i].want);
        buf_free(&b);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double in;
        const char *want;
    } rows[] = {{0, "0.0"},
                {-0.0, "-0.0"},
                {3, "3.0"},
                {-0.5, "-0.5"},
                {0.1, "0.1"},
                {1.0 / 3, "0.3333333333333333"},
                {1e300, "1e+300"},
                {123456.25, "123456.25"},
                {5e-7, "5e-07"},
                {0.000001, "0.000001"},
                {2251799813685249.5, "2251799813685249.5"}};
    struct rng r;
    struct buf b;
    buf_init(&b, 1 * KiB);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_reset(&b);
        buf_put_real(&b, rows[i].in);
        assert_str(buf_str(&b), rows[i].want);
    }
    rng_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_u64(&r);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (i % 2)
            x = (double)(int64_t)rng_below(&r, 2000000) / 1000 - 1000;
        buf_reset(&b);
        if (isfinite(x)) {
            buf_put_real(&b, x);
            buf_put_char(&b, '\0');
            assert_true(strtod(b.p, NULL) == x && strpbrk(b.p, ".e"));
        }
    }
    buf_reset(&b);
    buf_put_i64(&b, INT64_MIN);
    buf_put_u64(&b, UINT64_MAX);
    assert_str(buf_str(&b), "-922337203685477580818446744073709551615");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_is_sticky),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_json_escapes),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
