/* Exact comparison and divisibility, against integers and by hand where doubles would round. */
#include "common/rng.h"
#include "common/test.h"
#include "verifier/text/decimal.h"

#include <stdio.h>
#include <string.h>

struct fixture {
    struct arena arena;
};

static int set_up(void **state)
{
    static struct fixture f;
    arena_init(&f.arena, 1 << 20);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&((struct fixture *)*state)->arena);
    return 0;
}

static struct decimal read(struct fixture *f, const char *text)
{
    struct decimal d;
    assert_true(decimal_read(str_from(text), &f->arena, &d));
    return d;
}

static int compare(struct fixture *f, const char *a, const char *b)
{
    struct decimal x = read(f, a), y = read(f, b);
    int order = decimal_compare(&x, &y);
    assert_int_equal(decimal_compare(&y, &x) > 0, order < 0);
    return (order > 0) - (order < 0);
}

static void test_order(void **state)
{
    static const char *const rising[] = {
        "-1e999999999999",
        "-10",
        "-9.99999999999999999999",
        "-1e-400",
        "0",
        "1e-400",
        "0.01",
        "1",
        "1.00000000000000000001",
        "9007199254740992",
        "9007199254740993",
        "1e400",
        "1.5e400",
        "1e999999999999999999999",
    };
    enum { N = sizeof rising / sizeof rising[0] };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            assert_int_equal(compare(*state, rising[i], rising[k]), (i > k) - (i < k));
}

static void test_spellings(void **state)
{
    static const char *const same[][2] = {
        {"1", "1.0"},         {"100", "1e2"},
        {"0", "-0.0e7"},      {"0.5", "5E-1"},
        {"12.50", "1250e-2"}, {"-3", "-30e-1"},
        {"0.00100", "1e-3"},  {"1e-9999999999999999999", "1e-9999999999999999998"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_int_equal(compare(*state, same[i][0], same[i][1]), 0);
}

static void test_integers_and_counts(void **state)
{
    static const struct {
        const char *text;
        bool is_integer, is_count;
        uint64_t count;
    } row[] = {
        {"0", true, true, 0},
        {"3.0", true, true, 3},
        {"12e1", true, true, 120},
        {"1.5", false, false, 0},
        {"-1", true, false, 0},
        {"9007199254740992", true, true, 1ull << 53},
        {"9007199254740993", true, false, 0},
        {"1e400", true, false, 0},
        {"1e-400", false, false, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct decimal d = read(*state, row[i].text);
        uint64_t n = 0;
        assert_int_equal(decimal_is_integer(&d), row[i].is_integer);
        assert_int_equal(decimal_to_count(&d, &n), row[i].is_count);
        assert_true(!row[i].is_count || n == row[i].count);
    }
}

static void test_multiples(void **state)
{
    static const struct {
        const char *x, *y;
        bool is_multiple;
    } row[] = {
        {"0.3", "0.1", true},
        {"19.99", "0.01", true},
        {"0.0075", "0.0001", true},
        {"0.00751", "0.0001", false},
        {"1e999999", "3", false},
        {"3e999999", "3", true},
        {"7", "2.5", false},
        {"7.5", "2.5", true},
        {"0", "7", true},
        {"-14", "7", true},
        {"1e308", "0.123456789", false},
        {"10", "100", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct decimal x = read(*state, row[i].x), y = read(*state, row[i].y);
        if (decimal_is_multiple(&x, &y) != row[i].is_multiple)
            fail_msg("%s of %s", row[i].x, row[i].y);
    }
}

/* Scaled integers: n * 10^-3 is a multiple of m * 10^-2 exactly when 10 m divides n. */
static void test_multiples_against_integers(void **state)
{
    struct rng r;
    rng_seed(&r, 3);
    for (int i = 0; i < 3000; i++) {
        uint64_t n = rng_below(&r, 100000), m = 1 + rng_below(&r, 60);
        char a[32], b[32];
        snprintf(a, sizeof a, "%llu.%03llu", (unsigned long long)n / 1000,
                 (unsigned long long)n % 1000);
        snprintf(b, sizeof b, "%llue-2", (unsigned long long)m);
        struct decimal x = read(*state, a), y = read(*state, b);
        assert_int_equal(decimal_is_multiple(&x, &y), n % (10 * m) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spellings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_integers_and_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_multiples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_multiples_against_integers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
