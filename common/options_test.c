/* The option tables: every form, positional arguments in order, and what refusals say. */
#include "common/test.h"

#include "common/options.h"

#include <string.h>

struct values {
    bool now;
    const char *route;
    int64_t limit;
    struct opt_list set;
};

static int parse(struct values *v, int argc, const char **argv, int *left, struct err *e)
{
    const struct opt table[] = {
        {"now", 'n', OPT_FLAG, &v->now, 0, 0, NULL, "at once"},
        {"route", 'r', OPT_TEXT, &v->route, 0, 0, "R", "the route"},
        {"limit", 0, OPT_INT, &v->limit, 1, 100, "N", "how many"},
        {"set", 0, OPT_LIST, &v->set, 0, 0, "KEY=VALUE", "override"},
    };
    const struct opt_group group = {"Options", table, 4};

    return opt_parse(&group, 1, argc, (char **)argv, left, e);
}

static void test_forms(void **state)
{
    (void)state;
    const char *argv[] = {"set",       "--route", "math",  "temperature=0.5",
                          "--limit=7", "-n",      "--set", "a=1",
                          "--set=b=2", "--",      "--x"};
    struct values v = {0};
    struct err e = {0};
    int left = 0;

    assert_ok(parse(&v, 11, argv, &left, &e), &e);
    assert_int_equal(left, 3);
    assert_string_equal(argv[0], "set");
    assert_string_equal(argv[1], "temperature=0.5");
    assert_string_equal(argv[2], "--x");
    assert_true(v.now);
    assert_string_equal(v.route, "math");
    assert_int_equal(v.limit, 7);
    assert_int_equal(v.set.n, 2);
    assert_string_equal(v.set.item[1], "b=2");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *argv[2];
        int argc;
        const char *says;
    } row[] = {
        {{"--rout", NULL}, 1, "did you mean --route"},
        {{"--limit", "0"}, 2, "[1, 100]"},
        {{"--limit", "many"}, 2, "'many' is not a whole number"},
        {{"--route", NULL}, 1, "--route needs a value"},
        {{"--now=yes", NULL}, 1, "takes no value"},
        {{"-z", NULL}, 1, "unknown option -z"},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *argv[2] = {row[i].argv[0], row[i].argv[1]};
        struct values v = {0};
        struct err e = {0};
        int left = 0;
        assert_int_equal(parse(&v, row[i].argc, argv, &left, &e), ERR_INVALID);
        if (strstr(e.msg, row[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, row[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
