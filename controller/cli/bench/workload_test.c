/* A load is a function of its seed; lengths and arrivals follow their laws. */
#include "common/test.h"

#include "controller/cli/bench/workload.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 20000 };

static struct workload make(enum length_law law)
{
    return (struct workload){.seed = 7,
                             .prefix_seed = 7,
                             .law = law,
                             .prompt_words = 100,
                             .output_tokens = 50,
                             .max_words = 30000,
                             .max_output = 16000};
}

static void test_fixed_and_cut(void **state)
{
    (void)state;
    struct workload w = make(LENGTH_FIXED);

    for (uint64_t i = 0; i < 50; i++) {
        struct turn_size size = workload_turn(&w, i, 0);
        assert_int_equal(size.words, 100);
        assert_int_equal(size.output_tokens, 50);
    }
    w.law = LENGTH_EXPONENTIAL;
    w.max_words = 20;
    w.max_output = 10;
    for (uint64_t i = 0; i < 500; i++) {
        struct turn_size size = workload_turn(&w, i, 0);
        assert_in_range(size.words, 1, 20);
        assert_in_range(size.output_tokens, 1, 10);
    }
}

static void test_laws(void **state)
{
    (void)state;
    struct workload shared = make(LENGTH_SHAREGPT), exponential = make(LENGTH_EXPONENTIAL);
    uint32_t below_median = 0;
    double sum = 0, log_sum = 0;

    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t words = workload_turn(&shared, i, 0).words;
        below_median += words < 100;
        log_sum += pow(log(words / 100.0), 2);
        sum += workload_turn(&exponential, i, 0).output_tokens;
    }
    assert_true(fabs(below_median / (double)DRAWS - 0.5) < 0.02);
    assert_true(fabs(sqrt(log_sum / DRAWS) - 1.1) < 0.03);
    assert_true(fabs(sum / DRAWS - 50) < 1.5);
}

static void test_same_seed_same_text(void **state)
{
    (void)state;
    struct workload w = make(LENGTH_SHAREGPT), other = w;
    struct buf a, b;
    buf_init(&a, MiB);
    buf_init(&b, MiB);

    other.seed = 8;
    workload_text(&w, 3, 1, &a);
    workload_text(&w, 3, 1, &b);
    assert_true(str_eq(buf_str(&a), buf_str(&b)));
    buf_reset(&b);
    workload_text(&w, 3, 2, &b);
    assert_false(str_eq(buf_str(&a), buf_str(&b)));
    buf_reset(&b);
    workload_text(&other, 3, 1, &b);
    assert_false(str_eq(buf_str(&a), buf_str(&b)));

    other.prefix_words = w.prefix_words = 40;
    buf_reset(&a);
    buf_reset(&b);
    workload_prefix(&w, &a);
    workload_prefix(&other, &b);
    assert_true(a.n > 0 && str_eq(buf_str(&a), buf_str(&b)));
    buf_free(&a);
    buf_free(&b);
}

static void test_arrivals(void **state)
{
    (void)state;
    struct workload w = make(LENGTH_FIXED);
    static uint64_t due_us[DRAWS];

    workload_arrivals(&w, due_us, DRAWS);
    assert_int_equal(due_us[DRAWS - 1], 0);
    w.rate_s = 50;
    workload_arrivals(&w, due_us, DRAWS);
    for (int i = 1; i < DRAWS; i++)
        assert_true(due_us[i] >= due_us[i - 1]);
    assert_true(fabs((double)due_us[DRAWS - 1] / 1e6 - DRAWS / 50.0) < 10);
}

static void test_names(void **state)
{
    (void)state;
    enum length_law law;
    struct err e;

    assert_int_equal(workload_law("sharegpt", &law, &e), ERR_OK);
    assert_int_equal(law, LENGTH_SHAREGPT);
    assert_int_equal(workload_law("normal", &law, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "exponential"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_and_cut),
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_same_seed_same_text),
        cmocka_unit_test(test_arrivals),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
