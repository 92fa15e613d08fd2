/* String slices: borders, splitting, whole-string numbers. */
#include "common/test.h"

#include <stdlib.h>

static void test_compare(void **state)
{
    (void)state;
    assert_true(str_eq(STR("ab"), STR("ab")));
    assert_false(str_eq(STR("ab"), STR("abc")));
    assert_true(str_eq((struct str){NULL, 0}, STR("")));
    assert_true(str_compare(STR("a"), STR("ab")) < 0);
    assert_true(str_compare(STR("b"), STR("ab")) > 0);
    assert_true(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")));
    assert_true(str_ends(STR("abc"), STR("bc")) && !str_ends(STR("c"), STR("bc")));
}

static void test_slice_is_clamped(void **state)
{
    (void)state;
    assert_str(str_slice(STR("hello"), 1, 3), "el");
    assert_str(str_slice(STR("hello"), 3, 99), "lo");
    assert_str(str_slice(STR("hello"), 9, 12), "");
    assert_str(str_trim(STR(" \t a b\r\n")), "a b");
    assert_str(str_trim(STR(" \n ")), "");
}

static void test_find(void **state)
{
    (void)state;
    assert_int_equal(str_find(STR("abcabc"), STR("bc"), 0), 1);
    assert_int_equal(str_find(STR("abcabc"), STR("bc"), 2), 4);
    assert_int_equal(str_find(STR("abc"), STR("x"), 0), -1);
    assert_int_equal(str_find(STR("abc"), STR(""), 3), 3);
    assert_int_equal(str_find(STR("abc"), STR(""), 4), -1);
    assert_int_equal(str_find((struct str){NULL, 0}, STR("x"), 0), -1);
}

static void test_split(void **state)
{
    (void)state;
    struct str rest = STR("a,,b,"), piece;
    const char *want[] = {"a", "", "b", ""};
    for (int i = 0; i < 4; i++) {
        assert_true(str_split(&rest, ',', &piece));
        assert_str(piece, want[i]);
    }
    assert_false(str_split(&rest, ',', &piece));
}

static void test_numbers(void **state)
{
    (void)state;
    int64_t i = 7;
    double d = 7;
    assert_int_equal(str_to_i64(STR("-12"), &i, NULL), ERR_OK);
    assert_int_equal(i, -12);
    const char *bad[] = {"", " 1", "1 ", "1x", "0x10", "9223372036854775808"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(str_to_i64(str_from(bad[k]), &i, NULL), ERR_INVALID);
    assert_int_equal(i, -12);
    assert_int_equal(str_to_f64(STR("1e-3"), &d, NULL), ERR_OK);
    assert_true(d == 0.001);
    const char *not_finite[] = {"nan", "inf", "1e999", "", "1,5"};
    for (size_t k = 0; k < sizeof not_finite / sizeof *not_finite; k++)
        assert_int_equal(str_to_f64(str_from(not_finite[k]), &d, NULL), ERR_INVALID);
}

static void test_dup_refuses_nul(void **state)
{
    (void)state;
    assert_null(str_dup_c((struct str){"a\0b", 3}));
    char *copy = str_dup_c(STR("ab"));
    assert_string_equal(copy, "ab");
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare), cmocka_unit_test(test_slice_is_clamped),
        cmocka_unit_test(test_find),    cmocka_unit_test(test_split),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_dup_refuses_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
