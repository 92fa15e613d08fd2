/* Numbers out of /metrics' text, and texts that are none. */
#include "common/test.h"

#include "controller/cli/readings.h"

#include <math.h>

#define TEXT                                                                                       \
    "# HELP milepost_a A.\n# TYPE milepost_a counter\n"                                            \
    "milepost_a{reason=\"full\",route=\"x\"} 3\nmilepost_a{reason=\"old\"} 4.5\n"                  \
    "milepost_ab 100\nmilepost_b 7\nmilepost_c{route=\"a b } c\"} 2\nmilepost_d -1e3\n"            \
    "milepost_e{engine=\"1\"} 9\nmilepost_e{engine=\"2\"} 8\n"

static void test_sums(void **state)
{
    (void)state;
    const struct str t = STR(TEXT);
    assert_true(readings_sum(t, "milepost_a") == 7.5);
    assert_true(readings_sum(t, "milepost_b") == 7);
    assert_true(readings_sum(t, "milepost_c") == 2);
    assert_true(readings_sum(t, "milepost_d") == -1000);
    assert_true(readings_sum(t, "milepost_none") == 0);
    assert_true(readings_least(t, "milepost_e") == 8);
    assert_true(isnan(readings_least(t, "milepost_none")));
}

static void test_most_grown(void **state)
{
    (void)state;
    const struct str before = STR("u{a=\"1\",reason=\"x\"} 5\nu{a=\"1\",reason=\"y\"} 5\n");
    const struct str after =
        STR("u{a=\"1\",reason=\"x\"} 6\nu{a=\"1\",reason=\"y\"} 9\nu{a=\"1\",reason=\"z\"} 1\n");
    assert_str(readings_most_grown(before, after, "u", "reason"), "y");
    assert_str(readings_most_grown(after, after, "u", "reason"), "");
    assert_str(readings_most_grown(STR(""), before, "u", "eason"), "");
}

static void test_other_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",      "\n\n",    "u",        "u ",        "u x",         " 5",
        "u{ 5",  "u} 5",    "{} 5",     "u{a=\"} 5", "u{reason=\"", "u{reason=\"x} 1",
        "u nan", "u 1 2 x", "<html> 5", "# u 5",     "u\t5",        "u{}{} 1e999"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct str t = str_from(texts[i]);
        assert_true(readings_sum(t, "w") == 0);
        assert_false(isnan(readings_sum(t, "u")));
        assert_true(readings_most_grown(STR(""), t, "u", "reason").n <= t.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_most_grown),
        cmocka_unit_test(test_other_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
