/* References of every JSON type, several answers, scopes; hostile texts stay bounded. */
#include "verifier/check_harness.h"

static void test_reference_types(void **state)
{
    (void)state;
    assert_int_equal(harness_text("exact", "{}", STR("42"), "{\"reference\":42}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("exact", "{}", STR("0.5"), "{\"reference\":0.5}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("exact", "{}", STR("true"), "{\"reference\":true}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("exact", "{}", STR("b"), "{\"reference\":[\"a\",\"b\"]}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("exact", "{\"reference\":[\"x\",\"y\"]}", STR("y"), NULL).outcome,
                     SCORE_PASS);
}

static void test_no_reference_is_unscored(void **state)
{
    (void)state;
    static const char *const metadata[] = {NULL, "{}", "{\"reference\":{}}", "{\"reference\":[]}"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(harness_text("exact", "{}", STR("x"), metadata[i]).reason,
                            "no_reference");
}

static void test_field(void **state)
{
    (void)state;
    const char *params = "{\"field\":\"answer\",\"scope\":\"last_line\",\"normalise\":true}";
    assert_int_equal(
        harness_text("exact", params, STR("Well.\n\n*B.*\n"), "{\"answer\":\"b\"}").outcome,
        SCORE_PASS);
}

static void test_hostile(void **state)
{
    (void)state;
    const char *params = "{\"normalise\":true}", *metadata = "{\"reference\":\"x\"}";
    struct str text = harness_repeat("\xEF\xB7\xBA", 340 * 1024); /* U+FDFA: 18 letters in NFKC */
    assert_int_equal(harness_text("exact", params, text, metadata).outcome, SCORE_FAIL);
    free((char *)text.p);
    text = harness_repeat("e\xCC\x81\xCC\x81\xCC\x81\xFF", 128 * 1024);
    assert_int_equal(harness_text("exact", params, text, metadata).outcome, SCORE_FAIL);
    free((char *)text.p);
    text = harness_repeat("\xCC\x81", 512 * 1024); /* one letter of half a million accents */
    assert_int_equal(harness_text("exact", params, text, metadata).outcome, SCORE_FAIL);
    free((char *)text.p);
    text = harness_repeat("x ", 5 * 1024 * 1024);
    assert_string_equal(harness_text("exact", params, text, metadata).reason, "inconclusive");
    free((char *)text.p);
    struct str nul = {"x\0", 2};
    assert_int_equal(harness_text("exact", "{}", nul, metadata).outcome, SCORE_FAIL);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("exact", "{\"scope\":\"paragraph\"}", "allowed: whole, first_line, last_line");
    harness_refuses("exact", "{\"normalize\":true}", "unknown key 'normalize'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_types), cmocka_unit_test(test_no_reference_is_unscored),
        cmocka_unit_test(test_field),           cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
