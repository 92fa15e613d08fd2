/* Words of each split on texts where they differ; cover without gaps; unknown names. */
#include "common/test.h"

#include "common/buf.h"
#include "engine/text/pretok.h"

#include <string.h>

static void words(const char *split, struct str text, struct buf *out)
{
    struct pretok *p;
    struct pretok_scan scan;
    struct err e = {0};
    assert_ok(pretok_open(&p, str_from(split), &e), &e);
    assert_ok(pretok_scan_open(&scan, p, &e), &e);
    for (size_t from = 0, to; from < text.n; from = to) {
        assert_ok(pretok_next(&scan, text, from, &to, &e), &e);
        assert_in_range(to, from + 1, text.n);
        if (from)
            buf_put_char(out, '|');
        buf_put_str(out, str_slice(text, from, to));
    }
    pretok_scan_close(&scan);
    pretok_close(p);
}

struct row {
    const char *split, *text, *words;
};

static void test_words(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        {"gpt-2", "Hello  world's 1234!", "Hello| | world|'s| 1234|!"},
        {"gpt-2", "CAN'T can't", "CAN|'|T| can|'t"},
        {"gpt-2", "a\n\n b  ", "a|\n\n| b|  "},
        {"default", "x 42", "x| 42"},
        {"smollm", "Hello  world's 1234!", "Hello| | world|'s| |1|2|3|4|!"},
        {"smollm", "a  7", "a|  |7"},
        {"smollm", "\xC2\xBD\xD9\xA3x", "\xC2\xBD|\xD9\xA3|x"},
        {"llama-bpe", "I'LL pay 12345.67", "I|'LL| pay| |123|45|.|67"},
        {"llama-bpe", "a\n\n b  ", "a|\n\n| b|  "},
        {"llama-bpe", "f(x);\n\nend", "f|(x|);\n\n|end"},
        {"llama3", "\tx", "\tx"},
        {"qwen2", "I'LL pay 123", "I|'LL| pay| |1|2|3"},
        {"qwen2", "  x\r\n", " | x|\r\n"},
        {"qwen2",
         "\xE1\xA0\x8E"
         "a",
         "\xE1\xA0\x8E"
         "a"}, /* U+180E is no white space */
        {"gpt-2", "a\xF0\xB1\x8D\x90",
         "a\xF0\xB1\x8D\x90"}, /* U+31350, a letter since Unicode 15 */
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct buf out;
        buf_init(&out, KiB);
        words(ROWS[i].split, str_from(ROWS[i].text), &out);
        assert_str(buf_str(&out), ROWS[i].words);
        buf_free(&out);
    }
}

static void test_unknown(void **state)
{
    (void)state;
    struct pretok *p;
    struct err e = {0};
    assert_int_equal(pretok_open(&p, STR("no such split"), &e), ERR_UNSUPPORTED);
    assert_null(p);
    const char *known[] = {"no such split", "gpt-2", "llama-bpe", "qwen2", "smollm"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_non_null(strstr(e.msg, known[i]));
    assert_int_equal(pretok_open(&p, STR(""), &e), ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
