/* Reference outputs of the published generators, and simple distribution checks. */
#include "common/test.h"

#include "common/rng.h"

#include <math.h>
#include <stdlib.h>

static void test_splitmix_vectors(void **state)
{
    (void)state;
    /* splitmix64.c by Vigna, seed 1234567: first three outputs. */
    uint64_t s = 1234567;
    assert_true(rng_splitmix(&s) == 6457827717110365317u);
    assert_true(rng_splitmix(&s) == 3203168211198807973u);
    assert_true(rng_splitmix(&s) == 9817491932198370423u);
}

static void test_ranges(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 1);
    double sum = 0, squares = 0;
    int counts[7] = {0};
    enum { N = 70000 };
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&r), z = rng_normal(&r);
        assert_true(u >= 0 && u < 1);
        sum += z;
        squares += z * z;
        counts[rng_below(&r, 7)]++;
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
    for (int i = 0; i < 7; i++)
        assert_true(abs(counts[i] - N / 7) < 500);
}

static void test_same_seed_same_sequence(void **state)
{
    (void)state;
    struct rng a, b;
    rng_seed(&a, 42);
    rng_seed(&b, 42);
    for (int i = 0; i < 100; i++)
        assert_true(rng_u64(&a) == rng_u64(&b));
    rng_seed(&b, 43);
    assert_true(rng_u64(&a) != rng_u64(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splitmix_vectors),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_same_seed_same_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
