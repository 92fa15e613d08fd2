/* Every code point round-trips; what Unicode forbids is refused; cut tails are seen. */
#include "common/test.h"

#include <string.h>

#include "common/utf8.h"

static void test_round_trip_all(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char bytes[4];
        size_t n = utf8_encode(cp, bytes);
        if (cp >= 0xD800 && cp <= 0xDFFF) {
            assert_int_equal(n, 0);
            continue;
        }
        uint32_t back = 0;
        assert_int_equal(utf8_decode((struct str){bytes, n}, &back), n);
        assert_int_equal(back, cp);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(utf8_decode((struct str){bytes, cut}, &back), 0);
            assert_int_equal(utf8_partial_tail((struct str){bytes, cut}), cut);
        }
        assert_int_equal(utf8_partial_tail((struct str){bytes, n}), 0);
    }
    assert_int_equal(utf8_encode(0x110000, (char[4]){0}), 0);
}

static void test_invalid(void **state)
{
    (void)state;
    const char *bad[] = {"\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
                         "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                         "\xFF",         "a\xE2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(utf8_is_valid(str_from(bad[i])));
    assert_true(utf8_is_valid(STR("a\0\xF0\x9F\x98\x80")));
}

static void test_maximal_subparts(void **state)
{
    (void)state;
    /* Unicode 15, table 3-8: C0 AF E0 80 BF is five replacements, F1 80 80 41 is one. */
    assert_int_equal(utf8_invalid_run(STR("\xC0\xAF")), 1);
    assert_int_equal(utf8_invalid_run(STR("\xE0\x80\xBF")), 1);
    assert_int_equal(utf8_invalid_run(STR("\xF1\x80\x80\x41")), 3);
    assert_int_equal(utf8_partial_tail(STR("ab\xF0\x9F")), 2);
    assert_int_equal(utf8_partial_tail(STR("\x80\x80\x80")), 0);
}

/* Each byte at each place of a word, and what stands behind it. */
static void test_plain_run_ends_at_the_first_other_byte(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        bool is_plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
        for (size_t at = 0; at < 19; at++) {
            char text[19];
            memset(text, ' ', sizeof text);
            text[at] = (char)c;
            struct str s = {text, sizeof text};
            assert_int_equal(utf8_plain_run(s), is_plain ? sizeof text : at);
        }
    }
    assert_int_equal(utf8_plain_run(STR("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_all),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_maximal_subparts),
        cmocka_unit_test(test_plain_run_ends_at_the_first_other_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
