/* The order of the search; a broken outer value is never replaced by one inside it. */
#include "common/test.h"
#include "verifier/text/json_find.h"
#include "verifier/text/json_scan.h"

static void finds(const char *text, enum json_want want, const char *expected)
{
    struct str value;
    const char *why = NULL;
    if (!json_find(str_from(text), want, &value, &why))
        fail_msg("nothing found in '%s': %s", text, why);
    assert_str(value, expected);
    assert_int_equal(json_scan_text(value), JSON_SCAN_OK);
}

static void misses(const char *text, enum json_want want, const char *expected_why)
{
    struct str value;
    const char *why = NULL;
    assert_false(json_find(str_from(text), want, &value, &why));
    assert_string_equal(why, expected_why);
}

static void test_order(void **state)
{
    (void)state;
    finds("\n 7 ", JSON_WANT_ANY, "7");
    finds("x [1] y\n```json\n{\"a\":1}\n```\n", JSON_WANT_ANY, "{\"a\":1}");
    finds("see [1], so {\"a\":1}", JSON_WANT_OBJECT, "{\"a\":1}");
    finds("see [1], so {\"a\":1}", JSON_WANT_ARRAY, "[1]");
    finds("```\n[2]\n```\n```json\n[3]\n```", JSON_WANT_ANY, "[3]");
}

static void test_no_salvage(void **state)
{
    (void)state;
    misses("", JSON_WANT_ANY, "no_json");
    misses("words", JSON_WANT_ANY, "no_json");
    misses("{\"a\": {\"b\":1}", JSON_WANT_ANY, "invalid_json");
    misses("{x: {\"b\":1}}", JSON_WANT_ANY, "invalid_json");
    misses("```json\nno\n```\n{\"b\":1}", JSON_WANT_ANY, "invalid_json");
    misses("[{\"b\":1}]", JSON_WANT_OBJECT, "invalid_json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_no_salvage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
