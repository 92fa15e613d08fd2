/* The breaker's course over made-up time. */
#include "common/test.h"

#include "verifier/remote/breaker.h"

static void test_course(void **state)
{
    (void)state;
    struct breaker b = {.limit = 3, .open_us = 100};
    assert_false(breaker_failure(&b, (struct mono){1}));
    assert_false(breaker_failure(&b, (struct mono){2}));
    breaker_success(&b); /* in a row: begins again */
    assert_false(breaker_failure(&b, (struct mono){3}));
    assert_false(breaker_failure(&b, (struct mono){4}));
    assert_true(breaker_failure(&b, (struct mono){5}));
    assert_int_equal(breaker_look(&b, (struct mono){104}), BREAKER_OPEN);
    assert_false(
        breaker_failure(&b, (struct mono){104})); /* an answer from before: no longer open */
    assert_int_equal(breaker_look(&b, (struct mono){105}), BREAKER_TRIAL);
    assert_true(breaker_failure(&b, (struct mono){106})); /* one failed trial is enough */
    assert_int_equal(breaker_look(&b, (struct mono){205}), BREAKER_OPEN);
    assert_int_equal(breaker_look(&b, (struct mono){206}), BREAKER_TRIAL);
    breaker_success(&b);
    assert_int_equal(breaker_look(&b, (struct mono){207}), BREAKER_CLOSED);
}

static void test_zero_never_opens(void **state)
{
    (void)state;
    struct breaker b = {.open_us = 100};
    for (uint64_t i = 0; i < 1000; i++)
        assert_false(breaker_failure(&b, (struct mono){i}));
    assert_int_equal(breaker_look(&b, (struct mono){1000}), BREAKER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_course),
                                       cmocka_unit_test(test_zero_never_opens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
