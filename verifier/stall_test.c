/* No text stalls a rule: every kind that needs nothing from outside, on long, deep, repeated and
 * broken texts. The harness fails when one verdict costs more than its bound of CPU time. */
#include "verifier/check_harness.h"

struct rule {
    const char *kind, *params, *metadata;
};

static const struct rule RULES[] = {
    {"length", "{\"unit\":\"words\",\"min\":1}", NULL},
    {"length", "{\"unit\":\"sentences\",\"max\":9}", NULL},
    {"regex", "{\"pattern\":\"^(a+)+$\"}", NULL},
    {"regex", "{\"pattern\":\"^(a|aa)*!\"}", NULL},
    {"regex", "{\"pattern\":\"(x+x+)+y\"}", NULL},
    {"contains", "{\"any\":[\"needle\"],\"ignore_case\":true,\"whole_words\":true}", NULL},
    {"json", "{\"mode\":\"strict\"}", NULL},
    {"json", "{\"mode\":\"embedded\"}", NULL},
    {"exact", "{\"normalise\":true}", "{\"reference\":\"x\"}"},
    {"number", "{}", "{\"reference\":\"77\"}"},
    {"math", "{}", "{\"reference\":\"\\\\frac{77}{2}\"}"},
    {"choice", "{}", "{\"reference\":\"C\"}"},
    {"refusal", "{}", NULL},
    {"repetition", "{}", NULL},
};
enum { RULES_N = sizeof RULES / sizeof RULES[0] };

static void run_all(struct str text)
{
    for (int i = 0; i < RULES_N; i++)
        harness_text(RULES[i].kind, RULES[i].params, text, RULES[i].metadata);
}

static void run_repeated(const char *piece, size_t bytes)
{
    struct str text = harness_repeat(piece, bytes / strlen(piece));
    run_all(text);
    free((char *)text.p);
}

static void test_ten_megabytes(void **state)
{
    (void)state;
    run_repeated("The quick brown fox, 12 of them, said: \"no\". ", HOSTILE_BYTES);
}

static void test_repetition_bombs(void **state)
{
    (void)state;
    static const char *const piece[] = {"a", "aaaaaaa!", "x x ", "\n", "0", "ab ab ", "\t "};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++)
        run_repeated(piece[i], HOSTILE_BYTES / 16);
}

static void test_nesting(void **state)
{
    (void)state;
    static const char *const piece[] = {"[", "{", "(", "{\"a\":", "[[]", "((", "\\frac{1}{"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++)
        run_repeated(piece[i], 100000 * strlen(piece[i]));
}

static void test_broken_bytes(void **state)
{
    (void)state;
    static const char *const piece[] = {"\xFF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80 ",
                                        "\xE2\x80"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++)
        run_repeated(piece[i], HOSTILE_BYTES / 16);
    struct str zeros = {calloc(1, HOSTILE_BYTES / 16), HOSTILE_BYTES / 16};
    assert_non_null(zeros.p);
    run_all(zeros);
    free((char *)zeros.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_megabytes),
        cmocka_unit_test(test_repetition_bombs),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_broken_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
