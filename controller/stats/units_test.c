/* controller/stats/units_test.c - conversations as units: averages, order, bounds. */
#include "common/test.h"
#include "controller/stats/units.h"

static struct units u;

static bool add(uint64_t session, bool is_challenger, double value, uint64_t at_us, bool *is_new)
{
    struct unit row = {.session = session, .opened_us = at_us, .is_challenger = is_challenger};
    row.value[0] = value;
    row.n[0] = 1;
    return units_add(&u, &row, is_new);
}

static void test_turns_are_averaged_once(void **state)
{
    (void)state;
    bool is_new;
    struct unit out;
    u = (struct units){0};
    assert_true(add(7, false, 1.0, 100, &is_new) && is_new);
    assert_true(add(8, true, 0.0, 110, &is_new) && is_new);
    assert_true(add(7, false, 0.0, 120, &is_new) && !is_new);
    assert_true(add(7, false, 0.5, 130, &is_new));
    assert_int_equal(units_wake_us(&u, 50), 150);
    assert_false(units_take(&u, 149, 50, &out));
    assert_true(units_take(&u, 150, 50, &out));
    assert_int_equal(out.session, 7);
    assert_true(out.value[0] == 0.5 && out.n[0] == 3);
    assert_int_equal(out.n[1], 0);
    assert_false(units_take(&u, 150, 50, &out));
    assert_false(add(7, false, 1.0, 160, &is_new)); /* counted already */
    assert_false(add(8, false, 1.0, 160, &is_new)); /* one session, two arms: the first counts */
    assert_int_equal(u.n_excluded, 2);
    assert_true(units_take(&u, 160, 50, &out) && out.session == 8 && out.n[0] == 1);
    assert_int_equal(units_wake_us(&u, 50), 0);
}

static void test_it_is_bounded(void **state)
{
    (void)state;
    bool is_new;
    struct unit out;
    u = (struct units){0};
    int n_taken = 0;
    for (uint64_t i = 1; i <= 10000; i++) {
        assert_true(add(i, false, 1.0, i, &is_new) && is_new);
        for (; units_take(&u, i, 1000000, &out); n_taken++)
            assert_int_equal(out.session, n_taken + 1); /* oldest first */
        assert_true(u.n_open < UNITS_OPEN);
    }
    assert_int_equal(u.n_closed, UNITS_REMEMBERED);
    assert_int_equal(n_taken, 10000 - UNITS_OPEN + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_are_averaged_once),
        cmocka_unit_test(test_it_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
