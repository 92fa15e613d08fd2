/* Options, references of every JSON type, unscored without one, and no text that stalls it. */
#include "verifier/check_harness.h"

static enum score_outcome outcome(const char *text, const char *metadata)
{
    return harness_text("math", "{}", str_from(text), metadata).outcome;
}

static void test_references(void **state)
{
    (void)state;
    assert_int_equal(outcome("\\boxed{1/2}", "{\"reference\":0.5}"), SCORE_PASS);
    assert_int_equal(outcome("\\boxed{14}", "{\"reference\":14}"), SCORE_PASS);
    assert_int_equal(outcome("x = 3", "{\"reference\":[\"2\",\"3\"]}"), SCORE_PASS);
    assert_int_equal(outcome("x = 4", "{\"reference\":[\"2\",\"3\"]}"), SCORE_FAIL);
    assert_int_equal(
        harness_text("math", "{\"reference\":\"\\\\sqrt{8}\"}", STR("$2\\sqrt{2}$"), NULL).outcome,
        SCORE_PASS);
    assert_int_equal(
        harness_text("math", "{\"round\":2}", STR("0.67"), "{\"reference\":\"2/3\"}").outcome,
        SCORE_PASS);
    assert_int_equal(outcome("0.67", "{\"reference\":\"2/3\"}"), SCORE_FAIL);
}

static void test_unscored(void **state)
{
    (void)state;
    assert_string_equal(harness_text("math", "{}", STR("1"), NULL).reason, "no_reference");
    assert_string_equal(harness_text("math", "{}", STR("1"), "{\"reference\":{}}").reason,
                        "bad_reference");
    struct check_verdict v = harness_text("math", "{}", STR("\\boxed{1"), "{\"reference\":1}");
    assert_int_equal(v.outcome, SCORE_FAIL);
    assert_string_equal(v.reason, "open_box");
}

/* Long repetition, deep nesting, invalid UTF-8: as they are, in a box, and as the reference. */
static void test_hostile_texts(void **state)
{
    (void)state;
    static const char *const piece[] = {"9",
                                        "1,",
                                        "(",
                                        "{",
                                        "[",
                                        "\\frac{1}{",
                                        "\\boxed{",
                                        "\\text{",
                                        "$",
                                        "$x$ and ",
                                        "answer ",
                                        "answer is ",
                                        "\\[",
                                        "\\sqrt{",
                                        "x^",
                                        "-",
                                        "|",
                                        "!",
                                        "\xFF",
                                        "\xE2\x88\x92",
                                        "####",
                                        "a_",
                                        "\\begin{pmatrix}",
                                        "& \\\\",
                                        "1 or ",
                                        "**",
                                        "\\left(",
                                        "9!",
                                        "word ",
                                        "\\overline{",
                                        "2^{2^",
                                        "\\",
                                        "\\log_",
                                        "\xCF\x80",
                                        "1e9",
                                        "0.\\overline{3}"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        size_t bytes = i % 9 == 0 ? HOSTILE_BYTES : HOSTILE_BYTES / 16;
        struct str text = harness_repeat(piece[i], bytes / strlen(piece[i]));
        struct check_verdict v = harness_text("math", "{}", text, "{\"reference\":\"77777\"}");
        assert_int_not_equal(v.outcome, SCORE_PASS);
        free((char *)text.p);
    }
}

static void run_boxed(const char *piece, size_t n, const char *reference)
{
    struct buf b;
    struct str many = harness_repeat(piece, n);
    buf_init(&b, 64 * MiB);
    buf_printf(&b, "\\boxed{");
    buf_put(&b, many.p, many.n);
    buf_printf(&b, "}");
    harness_text("math", "{}", buf_str(&b), reference);
    free((char *)many.p);
    buf_free(&b);
}

static void test_hostile_expressions(void **state)
{
    (void)state;
    static const char *const piece[] = {"(",           "9",   "x+",     "\\sqrt ", "2^",
                                        "9!",          "-",   "x^y",    "1,",      "\\pm 1,",
                                        "|",           "a_1", "\\sin ", "1/",      "\\frac1",
                                        "\\cup [1,2]", "x<",  "1:",     "(1,2),",  "\\text{a}"};
    static const char *const reference[] = {
        "{\"reference\":\"\\\\sin x + \\\\pm 1\"}", "{\"reference\":\"(1,2),(3,4)\"}",
        "{\"reference\":\"9^{9^{9^{9}}}\"}", "{\"reference\":\"5000!^{5000}\"}"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++)
        for (size_t r = 0; r < sizeof reference / sizeof reference[0]; r++)
            run_boxed(piece[i], 4000 / strlen(piece[i]), reference[r]);
    run_boxed("(", 100000, reference[0]);
    run_boxed("((((1))))^{99999}+", 200, reference[3]);
    run_boxed("(x+1)^{60000}", 250, "{\"reference\":\"x\"}");
    run_boxed("4999!+1/4998!+", 280, "{\"reference\":\"4999!+1/4998!\"}");
}

static void test_nul_bytes(void **state)
{
    (void)state;
    struct str nul = {"\\boxed{1\0 2}", 12};
    assert_int_equal(harness_text("math", "{}", nul, "{\"reference\":12}").outcome, SCORE_FAIL);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("math", "{\"round\":99}", "round");
    harness_refuses("math", "{\"tolerance\":1}", "tolerance");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),    cmocka_unit_test(test_unscored),
        cmocka_unit_test(test_hostile_texts), cmocka_unit_test(test_hostile_expressions),
        cmocka_unit_test(test_nul_bytes),     cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
