/* Both spellings of values, options of a program's own, what is refused and with which code. */
#include "common/program.h"
#include "common/test.h"

static int begin(struct program *p, int argc, char **argv)
{
    *p = (struct program){.name = "p", .usage = "[options]", .about = "A program."};
    return program_begin(p, argc, argv);
}

static void test_values(void **state)
{
    (void)state;
    struct program p;
    char *argv[] = {"p", "--config", "f.yaml", "--set=a.b=1", "-s", "c=2", "--check-config"};
    assert_int_equal(begin(&p, 7, argv), PROGRAM_CONTINUE);
    assert_string_equal(p.config, "f.yaml");
    assert_int_equal(p.set.n, 2);
    assert_string_equal(p.set.item[0], "a.b=1");
    assert_string_equal(p.set.item[1], "c=2");
    assert_true(p.is_check && !p.is_print);
}

static void test_own_options(void **state)
{
    (void)state;
    bool is_alone = false;
    const struct opt own[] = {{"alone", 0, OPT_FLAG, &is_alone, 0, 0, NULL, "alone"}};
    struct program p = {.name = "p", .usage = "", .about = "", .opt = own, .n_opt = 1};
    char *argv[] = {"p", "--alone"};
    assert_int_equal(program_begin(&p, 2, argv), PROGRAM_CONTINUE);
    assert_true(is_alone && !p.config);
}

static void test_refusals(void **state)
{
    (void)state;
    struct program p;
    static const struct {
        char *argument;
    } REFUSED[] = {{"--confg"}, {"word"}, {"--config"}, {"--check-config=1"}, {"-x"}};
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        char *argv[] = {"p", REFUSED[i].argument};
        assert_int_equal(begin(&p, 2, argv), PROGRAM_USAGE);
    }
}

static void test_ends(void **state)
{
    (void)state;
    struct program p = {.name = "p"};
    struct err e = {0};
    char *help[] = {"p", "--help"}, *version[] = {"p", "--version"};
    assert_int_equal(begin(&p, 2, help), PROGRAM_OK);
    assert_int_equal(begin(&p, 2, version), PROGRAM_OK);
    assert_int_equal(program_end(&p, ERR_OK, PROGRAM_FAILED, &e), PROGRAM_OK);
    assert_int_equal(program_end(&p, ERR_IO, PROGRAM_FAILED, &e), PROGRAM_FAILED);
    assert_int_equal(program_end(&p, ERR_DEVICE, PROGRAM_FAILED, &e), PROGRAM_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_own_options),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
