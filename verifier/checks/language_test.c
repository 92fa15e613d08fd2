/* Refusals, metadata, texts made to mislead or stall. Languages are in tests/cases/language.tsv. */
#include "verifier/check_harness.h"

static const char *reason(const char *params, struct str text, const char *metadata)
{
    return harness_text("language", params, text, metadata).reason;
}

static void test_metadata(void **state)
{
    (void)state;
    struct str english = STR("The weather is nice today, and we walk along the river.");
    assert_string_equal(reason("{}", english, "{\"language\":\"en\"}"), "");
    assert_string_equal(reason("{}", english, "{\"language\":\"fr\"}"), "other_language");
    assert_string_equal(reason("{\"field\":\"l\"}", english, "{\"l\":\"en-GB\"}"), "");
    assert_string_equal(reason("{}", english, "{\"language\":\"klingon\"}"), "unknown_language");
    assert_string_equal(reason("{}", english, "{\"language\":3}"), "unknown_language");
    assert_string_equal(reason("{}", english, "{}"), "no_reference");
    assert_string_equal(reason("{\"allow\":[\"fr\",\"en\"]}", english, NULL), "");
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("language", "{\"allow\":[\"en\",\"xx\"]}", "allow[1]: found 'xx', allowed: af");
    harness_refuses("language", "{\"deny\":\"en\"}", "unknown key 'deny'");
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const piece[] = {"a",        "\xFF",         "\xE3\x81\x82",
                                        "\xCC\x81", "the cat sat ", " "};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], HOSTILE_BYTES / strlen(piece[i]));
        uint64_t start = check_cpu_us();
        reason("{\"allow\":[\"en\",\"ja\",\"fr\"]}", text, NULL);
        assert_true(check_cpu_us() - start < 500000); /* opening reads the profiles */
        free((char *)text.p);
    }
    struct str nul = {"the weather is nice \0 and we walk along the river", 49}, none = {NULL, 0};
    assert_string_equal(reason("{\"allow\":\"en\"}", nul, NULL), "");
    assert_string_equal(reason("{\"allow\":\"en\"}", none, NULL), "unknown_language");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
