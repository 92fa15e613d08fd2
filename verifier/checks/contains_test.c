/* Lists, metadata, word borders; a text without reference is unscored; long texts stay bounded. */
#include "verifier/check_harness.h"

static void test_metadata_lists(void **state)
{
    (void)state;
    const char *any = "{\"from_metadata\":\"any\"}", *all = "{\"from_metadata\":\"all\"}";
    const char *two = "{\"reference\":[\"cat\",\"dog\"]}";
    assert_int_equal(harness_text("contains", any, STR("a dog"), two).outcome, SCORE_PASS);
    assert_int_equal(harness_text("contains", all, STR("a dog"), two).outcome, SCORE_FAIL);
    assert_int_equal(harness_text("contains", "{\"from_metadata\":\"none\",\"field\":\"bad\"}",
                                  STR("a dog"), "{\"bad\":\"dog\"}")
                         .outcome,
                     SCORE_FAIL);
}

static void test_no_reference_is_unscored(void **state)
{
    (void)state;
    static const char *const metadata[] = {NULL,
                                           "{}",
                                           "{\"reference\":null}",
                                           "{\"reference\":[]}",
                                           "{\"reference\":3}",
                                           "{\"reference\":\"\"}"};
    for (int i = 0; i < 6; i++) {
        struct check_verdict v =
            harness_text("contains", "{\"from_metadata\":\"any\"}", STR("x"), metadata[i]);
        assert_int_equal(v.outcome, SCORE_UNSCORED);
        assert_string_equal(v.reason, "no_reference");
    }
}

static void test_share(void **state)
{
    (void)state;
    struct check_verdict v = harness_text(
        "contains", "{\"all\":[\"a\",\"b\",\"c\",\"d\"],\"partial\":true}", STR("a b c"), NULL);
    assert_int_equal(v.outcome, SCORE_VALUE);
    assert_true(v.value == 0.75);
}

static void test_hostile(void **state)
{
    (void)state;
    struct str text = harness_repeat("ab", 512 * 1024);
    const char *params = "{\"any\":[\"abababababab!\",\"ba\"],\"whole_words\":true}";
    assert_int_equal(harness_text("contains", params, text, NULL).outcome, SCORE_FAIL);
    free((char *)text.p);
    text = harness_repeat("a", 10 * 1024 * 1024);
    assert_string_equal(harness_text("contains", params, text, NULL).reason, "inconclusive");
    free((char *)text.p);
    struct str nul = {"a\0b", 3}, broken = {"\xFF\xFE cat", 6};
    assert_int_equal(harness_text("contains", "{\"all\":[\"b\"]}", nul, NULL).outcome, SCORE_PASS);
    assert_int_equal(
        harness_text("contains", "{\"all\":[\"CAT\"],\"ignore_case\":true}", broken, NULL).outcome,
        SCORE_PASS);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("contains", "{}", "nothing to look for");
    harness_refuses("contains", "{\"any\":[\"a\",\"\"]}", "any[1]: found an empty text");
    harness_refuses("contains", "{\"from_metadata\":\"some\"}", "allowed: nothing, all, any, none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata_lists), cmocka_unit_test(test_no_reference_is_unscored),
        cmocka_unit_test(test_share),          cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
