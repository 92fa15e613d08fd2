/* Whole files: limits, atomic replacement, folders. */
#include "common/test.h"

#include "common/io.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static void test_write_then_read(void **state)
{
    (void)state;
    char dir[] = "/tmp/milepost_io_XXXXXX";
    assert_non_null(mkdtemp(dir));
    char path[64], deep[64], under_file[80];
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(deep, sizeof deep, "%s/a/b/c", dir);
    snprintf(under_file, sizeof under_file, "%s/x", path);
    struct err e = {0};
    struct buf b;
    buf_init(&b, 10);
    assert_ok(io_write_file(path, STR("0123456789"), &e), &e);
    assert_ok(io_read_file(path, &b, &e), &e);
    assert_str(buf_str(&b), "0123456789");
    assert_ok(io_write_file(path, STR("0123456789A"), &e), &e);
    buf_reset(&b);
    assert_int_equal(io_read_file(path, &b, &e), ERR_INVALID);
    assert_ok(io_make_dir(deep, &e), &e);
    assert_ok(io_make_dir(deep, &e), &e);
    assert_int_equal(io_make_dir(under_file, &e), ERR_IO);
    assert_int_equal(io_read_file(under_file, &b, &e), ERR_IO);
    assert_non_null(strstr(e.msg, under_file));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_write_then_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
