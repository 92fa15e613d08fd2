/* The fake moves only when told; formatting is ISO 8601. */
#include "common/test.h"

#include "common/clock.h"

static void test_fake(void **state)
{
    (void)state;
    struct fake_clock f = {{5}, {0}};
    struct clock c = fake_clock_as_clock(&f);
    struct mono before = clock_mono(&c);
    fake_clock_advance(&f, 1500);
    assert_int_equal(mono_since_us(before, clock_mono(&c)), 1500);
    assert_int_equal(mono_since_us(clock_mono(&c), before), 0);
    assert_int_equal(clock_wall(&c).us, 1500);
}

static void test_real_and_format(void **state)
{
    (void)state;
    struct mono a = clock_mono(&CLOCK_REAL), b = clock_mono(&CLOCK_REAL);
    assert_true(b.us >= a.us);
    char text[32];
    wall_format((struct wall){1700000000123456}, text);
    assert_string_equal(text, "2023-11-14T22:13:20.123Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fake),
        cmocka_unit_test(test_real_and_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
