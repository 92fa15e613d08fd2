/* The committed truth tables hold; a broken table is refused with its line. */
#include "common/io.h"
#include "common/test.h"
#include "verifier/cases.h"

#include <string.h>

enum { ROW_MAX_US = 50000 };

static void holds(const char *path, uint32_t least_judged)
{
    struct err e = {0};
    struct buf table, out;
    struct cases_report r;
    buf_init(&table, 16 * MiB);
    buf_init(&out, 16 * MiB);
    assert_ok(io_read_file(path, &table, &e), &e);
    assert_ok(cases_run(buf_str(&table), &out, &r, &e), &e);
    if (r.disagreed > 0 || r.slowest_us > ROW_MAX_US || r.agreed < least_judged)
        fail_msg("%s:\n" STR_FMT, path, STR_ARG(buf_str(&out)));
    assert_int_equal(r.rows, r.agreed + r.disagreed + r.skipped);
    buf_free(&table);
    buf_free(&out);
}

static void test_committed_tables(void **state)
{
    (void)state;
    holds("tests/cases/verifier-cases.tsv", 107);
    holds("tests/cases/answers.tsv", 100);
    holds("tests/golden/math/pairs.tsv", 1300);
    holds("tests/cases/own.tsv", 500);
    holds("tests/cases/json_schema.tsv", 380);
    holds("tests/cases/constraints.tsv", 400);
    holds("tests/cases/language.tsv", 35);
}

static void run(const char *table, struct cases_report *r, const char *words)
{
    struct err e = {0};
    struct buf out;
    buf_init(&out, MiB);
    assert_ok(cases_run(str_from(table), &out, r, &e), &e);
    buf_put_char(&out, '\0');
    if (!strstr(out.p, words))
        fail_msg("'%s' does not say '%s'", out.p, words);
    buf_free(&out);
}

static void test_disagreement_and_skip_are_told(void **state)
{
    (void)state;
    struct cases_report r;
    run("head\nnumber\t41\t42\tpass\town\n", &r, "line 2: number: want pass, got fail because");
    assert_int_equal(r.disagreed, 1);
    run("head\nfuture\tx\ty\tpass\town\nfuture:a=b\tx\ty\tpass\town\n", &r,
        "skipped: kind future is not known here (2 rows)");
    assert_int_equal(r.skipped, 2);
}

static void refuses(const char *table, const char *words)
{
    struct err e = {0};
    struct buf out;
    struct cases_report r;
    buf_init(&out, MiB);
    assert_int_equal(cases_run(str_from(table), &out, &r, &e), ERR_INVALID);
    if (!strstr(e.msg, words))
        fail_msg("'%s' does not say '%s'", e.msg, words);
    buf_free(&out);
}

static void test_broken_tables(void **state)
{
    (void)state;
    refuses("head\nnumber\t41\t42\tpass\n", "line 2: found fewer than 5 fields");
    refuses("head\n\nnumber\ta\tb\tc\td\te\n", "line 3: found more than 5 fields");
    refuses("head\nnumber\t\\q\t42\tpass\town\n", "unknown escape");
    refuses("head\nregex\tx\t(\tpass\town\n", "line 2: pattern");
    refuses("head\nlength\tx\tmin\tpass\town\n", "allowed: key=value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_committed_tables),
        cmocka_unit_test(test_disagreement_and_skip_are_told),
        cmocka_unit_test(test_broken_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
