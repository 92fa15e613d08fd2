/* What the truth tables cannot show: spans, marks, memory; every number printed is read back. */
#include "common/buf.h"
#include "common/rng.h"
#include "common/test.h"
#include "verifier/text/numeral.h"

#include <stdio.h>
#include <string.h>

static void test_parts(void **state)
{
    (void)state;
    struct arena a;
    struct numeral n;
    arena_init(&a, 1 << 20);
    assert_true(numeral_stated(STR("It is -$1,234.50 %"), &a, &n));
    assert_str(n.text, "1,234.50");
    assert_str(n.digits, "1234.5");
    assert_true(n.is_negative && n.is_percent && n.is_exact);
    assert_true(n.value == -1234.5);
    assert_true(numeral_stated(STR("3/4"), &a, &n));
    assert_true(!n.is_exact && n.value == 0.75);
    arena_free(&a);
}

static void test_memory_limit(void **state)
{
    (void)state;
    struct arena a;
    struct numeral n;
    arena_init(&a, 1);
    assert_false(numeral_stated(STR("123456"), &a, &n));
    arena_free(&a);
}

static void put_grouped(uint64_t v, const char *mark, struct buf *out)
{
    if (v >= 1000)
        put_grouped(v / 1000, mark, out);
    if (v >= 1000)
        buf_printf(out, "%s%03u", mark, (unsigned)(v % 1000));
    else
        buf_printf(out, "%u", (unsigned)v);
}

/* Written with any grouping, and with decimals, a number reads as itself. */
static void test_grouped_numbers_read_back(void **state)
{
    (void)state;
    static const char *const marks[] = {"", ",", " ", "'", "\xC2\xA0", "{,}"};
    struct rng r;
    struct arena a;
    struct buf b;
    rng_seed(&r, 3);
    arena_init(&a, 1 << 20);
    buf_init(&b, 4096);
    for (int trial = 0; trial < 6000; trial++) {
        uint64_t v = rng_below(&r, 1000000000000) >> rng_below(&r, 40);
        struct numeral got, want;
        buf_reset(&b);
        arena_reset(&a);
        buf_put_c(&b, trial % 2 ? "The answer is " : "x = 7; ");
        put_grouped(v, marks[trial % 6], &b);
        unsigned cents = (unsigned)rng_below(&r, 100);
        buf_printf(&b, ".%02u.", cents);
        struct str reference = arena_printf(&a, "%llu.%02u", (unsigned long long)v, cents);
        assert_true(numeral_stated(buf_str(&b), &a, &got));
        assert_true(numeral_stated(reference, &a, &want));
        if (!numeral_equal(&got, &want, 0))
            fail_msg("'" STR_FMT "' reads as " STR_FMT, STR_ARG(buf_str(&b)), STR_ARG(got.digits));
    }
    buf_free(&b);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_grouped_numbers_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
