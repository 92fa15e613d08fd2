/* JSON: what is refused, how a message reads, numbers at their limits, both written forms. */
#include "common/json.h"

#include "common/test.h"

#include <math.h>
#include <string.h>

static json_t *parsed(const char *text)
{
    json_t *v = NULL;
    struct err e = {0};
    assert_ok(json_parse(str_from(text), JSON_UNIQUE_KEYS | JSON_ANY_VALUE, &v, &e), &e);
    return v;
}

static void test_parse_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int flags;
        const char *part; /* of the message */
    } cases[] = {
        {"", 0, "line"},
        {"{\"a\":1", 0, "line 1"},
        {"{\"a\":1} x", 0, "line 1"},
        {"[1]", 0, "an array"},
        {"3", 0, "line 1"},
        {"{\"a\":1,\"a\":2}", JSON_UNIQUE_KEYS, "duplicate"},
        {"{\"a\":\"\xff\"}", 0, "unable to decode byte"},
        {"{\"a\":1e999}", 0, "line 1"},
        {"{\"a\":99999999999999999999}", 0, "line 1"},
        {"NaN", JSON_ANY_VALUE, "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = NULL;
        struct err e = {0};
        assert_int_equal(json_parse(str_from(cases[i].text), cases[i].flags, &v, &e), ERR_INVALID);
        assert_null(v);
        if (!strstr(e.msg, cases[i].part))
            fail_msg("%s: '%s' lacks '%s'", cases[i].text, e.msg, cases[i].part);
    }
}

static void test_raw_nul_is_refused(void **state)
{
    (void)state;
    static const struct str rows[] = {{"[0.3\0]", 6}, {"{\"a\":1\0}", 8}, {"1\0", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = NULL;
        assert_int_equal(json_parse(rows[i], JSON_ANY_VALUE, &v, NULL), ERR_INVALID);
        assert_null(v);
    }
}

static void test_parse_depth_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    struct buf b;
    buf_init(&b, MiB);
    for (int i = 0; i < DEPTH; i++)
        buf_put_char(&b, '[');
    json_t *v = NULL;
    assert_int_equal(json_parse(buf_str(&b), JSON_ANY_VALUE, &v, NULL), ERR_INVALID);
    buf_free(&b);
}

static void test_path(void **state)
{
    (void)state;
    json_t *v = parsed("{\"messages\":[{},{\"content\":5}]}");
    struct json_at root = json_root(v), list = json_field(&root, "messages"),
                   item = json_item(&list, 1), at = json_field(&item, "content");
    char path[64];
    json_path(&at, path, sizeof path);
    assert_string_equal(path, "$.messages[1].content");
    json_path(&root, path, sizeof path);
    assert_string_equal(path, "$");
    char small[8];
    json_path(&at, small, sizeof small);
    assert_string_equal(small, "$.messa");
    struct str s = {0};
    struct err e = {0};
    assert_int_equal(json_get_str(&at, &s, &e), ERR_INVALID);
    assert_string_equal(e.msg, "$.messages[1].content: must be a string, got 5");
    json_decref(v);
}

static void test_integers(void **state)
{
    (void)state;
    json_t *v = parsed("[3, 3.0, 3.5, 1e30, \"3\", true, -1, 9223372036854775807, null]");
    static const int want[] = {ERR_OK,      ERR_OK,      ERR_INVALID, ERR_INVALID,  ERR_INVALID,
                               ERR_INVALID, ERR_INVALID, ERR_OK,      ERR_NOT_FOUND};
    struct json_at root = json_root(v);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct json_at at = json_item(&root, i);
        int64_t n = 42;
        struct err e = {0};
        assert_int_equal(json_get_i64(&at, 0, INT64_MAX, &n, &e), want[i]);
        assert_int_equal(n, want[i] != ERR_OK ? 42 : i == 7 ? INT64_MAX : 3);
    }
    struct json_at beyond = json_item(&root, 99);
    int64_t n = 42;
    assert_int_equal(json_get_i64(&beyond, 0, 9, &n, NULL), ERR_NOT_FOUND);
    json_decref(v);
}

static void test_range_message(void **state)
{
    (void)state;
    json_t *v = parsed("{\"top_p\":1.5}");
    struct json_at root = json_root(v);
    double d = 0;
    struct err e = {0};
    assert_int_equal(json_opt_f64(&root, "top_p", 0, 1, &d, &e), ERR_INVALID);
    assert_string_equal(e.msg, "$.top_p: must be a number from 0 to 1, got 1.5");
    json_decref(v);
}

static void test_optional(void **state)
{
    (void)state;
    json_t *v = parsed("{\"a\":null,\"b\":true,\"s\":\"x\\u0000y\",\"f\":2,\"i\":7}");
    struct json_at root = json_root(v);
    struct str s = STR("kept");
    bool b = false;
    double f = 0;
    int64_t i = 5;
    struct err e = {0};
    assert_ok(json_opt_str(&root, "a", &s, &e), &e);
    assert_ok(json_opt_i64(&root, "absent", 0, 9, &i, &e), &e);
    assert_str(s, "kept");
    assert_int_equal(i, 5);
    assert_ok(json_opt_bool(&root, "b", &b, &e), &e);
    assert_true(b);
    assert_ok(json_opt_f64(&root, "f", 0, 9, &f, &e), &e);
    assert_true(f == 2);
    assert_ok(json_opt_i64(&root, "i", 0, 9, &i, &e), &e);
    assert_int_equal(i, 7);
    assert_ok(json_opt_str(&root, "s", &s, &e), &e);
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "x\0y", 3);
    assert_int_equal(json_opt_bool(&root, "i", &b, &e), ERR_INVALID);
    assert_int_equal(json_opt_str(&root, "i", &s, &e), ERR_INVALID);
    json_decref(v);
}

static void test_containers(void **state)
{
    (void)state;
    json_t *v = parsed("{\"l\":[1,2,3]}");
    struct json_at root = json_root(v), list = json_field(&root, "l"),
                   none = json_field(&root, "x");
    size_t n = 0;
    struct err e = {0};
    assert_ok(json_get_array(&list, 3, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_int_equal(json_get_array(&list, 2, &n, &e), ERR_INVALID);
    assert_string_equal(e.msg, "$.l: has 3 items; at most 2 are allowed");
    assert_int_equal(json_get_object(&list, &e), ERR_INVALID);
    assert_int_equal(json_get_object(&none, &e), ERR_NOT_FOUND);
    assert_ok(json_get_object(&root, &e), &e);
    json_decref(v);
}

static void assert_written(const char *text, const char *plain, const char *canonical)
{
    json_t *v = parsed(text);
    struct buf b;
    struct err e = {0};
    buf_init(&b, MiB);
    assert_ok(json_write(v, &b, &e), &e);
    assert_str(buf_str(&b), plain);
    buf_reset(&b);
    assert_ok(json_write_canonical(v, &b, &e), &e);
    assert_str(buf_str(&b), canonical);
    buf_free(&b);
    json_decref(v);
}

static void test_write(void **state)
{
    (void)state;
    assert_written("{\"b\":[1, true,null,false],\"a\":{\"z\":0.1,\"y\":2.0}}",
                   "{\"b\":[1,true,null,false],\"a\":{\"z\":0.1,\"y\":2.0}}",
                   "{\"a\":{\"y\":2.0,\"z\":0.10000000000000001},\"b\":[1,true,null,false]}");
    assert_written("\"a\\\"\\n\\u0000\xc3\xa9\"", "\"a\\\"\\n\\u0000\xc3\xa9\"",
                   "\"a\\\"\\n\\u0000\xc3\xa9\"");
    assert_written("[]", "[]", "[]");
    assert_written("{}", "{}", "{}");
    assert_written("[1e300, 0.30000000000000004]", "[1e+300,0.30000000000000004]",
                   "[1.0000000000000001e+300,0.30000000000000004]");
}

static void test_write_respects_the_maximum(void **state)
{
    (void)state;
    json_t *v = parsed("[\"0123456789\"]");
    struct buf b;
    struct err e = {0};
    buf_init(&b, 8);
    assert_int_equal(json_write(v, &b, &e), ERR_NOMEM);
    buf_free(&b);
    json_decref(v);
}

static void test_new_values(void **state)
{
    (void)state;
    json_t *s = json_str((struct str){"a\xff\xc3z", 4});
    assert_string_equal(json_string_value(s), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
    json_decref(s);
    s = json_str((struct str){NULL, 0});
    assert_int_equal(json_string_length(s), 0);
    json_decref(s);
    assert_true(json_is_null(json_num(NAN)) && json_is_null(json_num(-INFINITY)));
    json_t *n = json_num(0.5);
    assert_true(json_real_value(n) == 0.5);
    json_decref(n);
    assert_string_equal(json_type_name(NULL), "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_raw_nul_is_refused),
        cmocka_unit_test(test_parse_depth_is_bounded),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_range_message),
        cmocka_unit_test(test_optional),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_respects_the_maximum),
        cmocka_unit_test(test_new_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
