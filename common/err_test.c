/* Every code has a row; messages are cut, never overrun; wrapping keeps the code. */
#include "common/test.h"

#include <errno.h>
#include <string.h>

static void test_table_is_complete(void **state)
{
    (void)state;
    for (int code = 0; code < ERR_COUNT; code++) {
        const struct err_info *info = err_info(code);
        assert_non_null(info->label);
        assert_in_range(info->http_status, 200, 599);
        for (int other = 0; other < code; other++)
            assert_string_not_equal(info->label, err_info(other)->label);
    }
    assert_ptr_equal(err_info(-1), err_info(ERR_BUG));
    assert_ptr_equal(err_info(ERR_COUNT), err_info(ERR_BUG));
}

static void test_wrap_keeps_code_and_cuts(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_set(&e, ERR_INVALID, "want %d", 3), ERR_INVALID);
    assert_int_equal(err_wrap(&e, "layer %d", 1), ERR_INVALID);
    assert_string_equal(e.msg, "layer 1: want 3");
    char many[400];
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    assert_int_equal(err_wrap(&e, "%s", many), ERR_INVALID);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static void test_sys_and_null(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_set_sys(&e, ERR_IO, ENOENT, "open x"), ERR_IO);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_non_null(strstr(e.msg, "No such file"));
    assert_int_equal(err_set(NULL, ERR_BUSY, "x"), ERR_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_wrap_keeps_code_and_cuts),
        cmocka_unit_test(test_sys_and_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
