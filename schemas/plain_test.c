/* An object is called plain only if a tree of it would be written in the same bytes. */
#include "schemas/plain.h"

#include "common/json.h"
#include "common/test.h"

static void test_plain_objects_stand_as_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_plain;
    } CASES[] = {
        {"{}", true},
        {"{\"reference\":\"right\"}", true},
        {"{\"a\":\"\",\"b\":true,\"c\":false,\"d\":-12,\"e\":0}", true},
        {"{\"a\":1,\"a\":2}", false},
        {"{\"\":1}", false},
        {"{\"a\":-0}", false},
        {"{\"a\":1.0}", false},
        {"{\"a\":1.50}", false},
        {"{\"a\":01}", false},
        {"{\"a\":null}", false},
        {"{\"a\":[1]}", false},
        {"{\"a\":{}}", false},
        {"{\"a\":tru}", false},
        {"{\"a\":\"x\\n\"}", false},
        {"{\"a\":\"\\/\"}", false},
        {"{\"a\\u0041\":1}", false},
        {"{\"a\":\"\xC3\xA4\"}", false},
        {"{\"a\":\"\xC3\"}", false},
        {"{\"a\":\"\x01\"}", false},
        {"{ }", false},
        {" {\"a\":1}", false},
        {"{\"a\":1} ", false},
        {"{\"a\": 1}", false},
        {"{\"a\":1,}", false},
        {"{\"a\":1", false},
        {"[]", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct str text = str_from(CASES[i].text);
        struct buf again;
        struct err e = {0};
        json_t *v = NULL;
        assert_int_equal(plain_object(text), CASES[i].is_plain);
        if (!CASES[i].is_plain)
            continue;
        buf_init(&again, KiB);
        assert_ok(json_parse(text, 0, &v, &e), &e);
        assert_ok(json_write(v, &again, &e), &e);
        assert_str(buf_str(&again), CASES[i].text);
        json_decref(v);
        buf_free(&again);
    }
}

static void test_many_members_are_left_to_the_tree(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 4 * KiB);
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "%c\"k%d\":%d", i ? ',' : '{', i, i);
    buf_put_char(&text, '}');
    assert_false(plain_object(buf_str(&text)));
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_objects_stand_as_they_are),
                                       cmocka_unit_test(test_many_members_are_left_to_the_tree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
