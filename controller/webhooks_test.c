/* Pauses between attempts; delivery itself is tested with real processes (tests/e2e). */
#include "controller/webhooks.h"

#include "common/test.h"

static void test_pauses_grow_to_ten_minutes(void **state)
{
    (void)state;
    assert_true(webhooks_pause_us(1000, 1, 0.0) == 1000000);
    assert_true(webhooks_pause_us(1000, 4, 0.0) == 8000000);
    assert_true(webhooks_pause_us(1000, 4, 1.0) == 4000000);
    assert_true(webhooks_pause_us(1000, 11, 0.0) == 600000000);
    assert_true(webhooks_pause_us(600000, UINT32_MAX, 0.0) == 600000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pauses_grow_to_ten_minutes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
