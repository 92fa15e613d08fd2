/* Counters of service: they rise, a returning user is lifted, nobody is lowered. */
#include "common/test.h"

#include "engine/sched/share.h"

static void test_lift(void **state)
{
    (void)state;
    static struct share s;
    share_init(&s, 9);
    uint32_t a = share_join(&s, 1), b = share_join(&s, 2);
    assert_int_not_equal(a, b);
    share_charge(&s, a, 500);
    share_charge(&s, b, 300);
    uint32_t c = share_join(&s, 3);
    assert_int_equal(share_served(&s, c), 300); /* the least of those who are there */
    share_leave(&s, a);
    share_charge(&s, b, 1000);
    share_charge(&s, c, 1000);
    assert_int_equal(share_join(&s, 1), a);
    assert_int_equal(share_served(&s, a), 1300); /* being away saves nothing up */
    share_leave(&s, a);
    share_charge(&s, a, 0);
    share_leave(&s, c);
    share_leave(&s, b); /* the last one, at 1300 */
    assert_int_equal(share_served(&s, share_join(&s, 4)), 1300);
}

static void test_requests_of_a_user_share_a_counter(void **state)
{
    (void)state;
    static struct share s;
    share_init(&s, 9);
    uint32_t a = share_join(&s, 7);
    share_charge(&s, a, 50);
    assert_int_equal(share_join(&s, 7), a);
    share_leave(&s, a);
    share_join(&s, 8);
    share_leave(&s, a);
    assert_int_equal(share_join(&s, 7), a);
    assert_int_equal(share_served(&s, a), 50); /* service is not forgotten */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lift),
        cmocka_unit_test(test_requests_of_a_user_share_a_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
