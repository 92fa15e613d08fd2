/* Counting and forms on scripts, broken bytes and ends. */
#include "common/test.h"
#include "verifier/text/text.h"

#include <string.h>

static void test_counts(void **state)
{
    (void)state;
    assert_int_equal(text_count_chars(STR("a\xC3\xA4\xF0\x9D\x84\x9E")), 3);
    assert_int_equal(text_count_chars(STR("\xFF\xC3")), 2);
    assert_int_equal(text_count_words(STR(" one\t two\xE3\x80\x80three\n")), 3);
    assert_int_equal(text_count_words(STR("")), 0);
    assert_int_equal(text_count_lines(STR("a\n \n\nb")), 2);
    assert_int_equal(text_count_sentences(STR("One. Two! (Three?) \"Four.\" five")), 5);
    assert_int_equal(text_count_sentences(STR("...")), 0);
    assert_int_equal(text_count_sentences(STR("It costs 3.50 today.")), 1);
}

static void test_words_are_pieces_of_the_text(void **state)
{
    (void)state;
    struct str s = STR("\xC2\xA0 a b\xC2\xA0");
    struct str rest = s, word;
    assert_true(text_next_word(&rest, &word));
    assert_str(word, "a");
    assert_true(text_next_word(&rest, &word));
    assert_str(word, "b");
    assert_false(text_next_word(&rest, &word));
    assert_str(text_trim(s), "a b");
    assert_int_equal(text_trim(STR(" \n ")).n, 0);
}

static void test_lower_hash(void **state)
{
    (void)state;
    assert_true(text_hash_lower(STR("\xC3\x84"
                                    "B")) == text_hash_lower(STR("\xC3\xA4"
                                                                 "b")));
    assert_false(text_hash_lower(STR("ab")) == text_hash_lower(STR("ba")));
}

static void test_forms(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    unsigned all = TEXT_FOLD_CASE | TEXT_COMPATIBLE | TEXT_ONE_SPACE | TEXT_PLAIN_ENDS;
    assert_str(text_form(STR(" **\xEF\xBC\xB9"
                             "es!** "),
                         all, &a),
               "yes");
    assert_str(text_form(STR("a\n  b"), TEXT_ONE_SPACE, &a), "a b");
    assert_str(text_form(STR("\xFFX"), TEXT_FOLD_CASE, &a), "\xEF\xBF\xBDx");
    assert_str(text_form((struct str){0}, all, &a), "");
    arena_free(&a);
}

static void test_answered_part(void **state)
{
    (void)state;
    static const char *const row[][2] = {
        {"plain", "plain"},
        {"<think>1</think>2", "2"},
        {"1</think>2</think>3", "3"}, /* the opening tag stood in the prompt */
        {"<think>cut", "<think>cut"},
        {"<think>1</think>", ""},
        {"so <answer>7</answer>.", "7"},
        {"<answer>1</answer> no: <answer>2</answer>", "2"},
        {"<answer>cut", "cut"},
        {"<answer>1</answer></think>2", "2"},
        {"{\"a\":\"</think><answer>b\"}", "{\"a\":\"</think><answer>b\"}"},
        {"```\n<answer>b</answer>\n```", "```\n<answer>b</answer>\n```"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct str got = text_answered(str_from(row[i][0]));
        if (!str_eq_c(got, row[i][1]))
            fail_msg("%s: got '" STR_FMT "'", row[i][0], STR_ARG(got));
    }
}

static void test_memory_limit_is_reported(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 8);
    assert_null(text_form(STR("longer than eight"), TEXT_FOLD_CASE, &a).p);
    assert_null(text_form(STR("longer than eight"), TEXT_ONE_SPACE, &a).p);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),        cmocka_unit_test(test_words_are_pieces_of_the_text),
        cmocka_unit_test(test_lower_hash),    cmocka_unit_test(test_forms),
        cmocka_unit_test(test_answered_part), cmocka_unit_test(test_memory_limit_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
