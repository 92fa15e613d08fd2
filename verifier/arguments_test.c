/* Both spellings of values, what is refused and how it is said. */
#include "common/test.h"
#include "verifier/arguments.h"

#include <string.h>

static void test_values(void **state)
{
    (void)state;
    struct arguments a;
    struct err e = {0};
    char *argv[] = {"v", "--config", "f.yaml", "--set=a.b=1", "--set", "c=2", "--check-config"};
    assert_ok(arguments_parse(7, argv, &a, &e), &e);
    assert_string_equal(a.config, "f.yaml");
    assert_int_equal(a.n_set, 2);
    assert_string_equal(a.set[0], "a.b=1");
    assert_string_equal(a.set[1], "c=2");
    assert_int_equal(a.mode, MODE_CHECK_CONFIG);
}

static void refuses(char *first, char *second, const char *words)
{
    struct arguments a;
    struct err e = {0};
    char *argv[] = {"v", first, second};
    assert_int_equal(arguments_parse(second ? 3 : 2, argv, &a, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, words));
}

static void test_refusals(void **state)
{
    (void)state;
    refuses("--confg", "x", "unknown argument '--confg'");
    refuses("serve", NULL, "unknown argument 'serve'");
    refuses("--set", NULL, "--set needs a value");
    refuses("--version=1", NULL, "unknown argument");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
