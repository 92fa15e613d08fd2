/* Members come out as they stand; what is no object is refused; every cut of a text is survived. */
#include "common/test.h"

#include "common/buf.h"
#include "common/clock.h"
#include "common/json_members.h"

#include <stdio.h>

static int count(struct str text)
{
    struct json_members m;
    struct json_member one;
    int n = 0, rc = json_members_open(&m, text, NULL);
    while (rc == ERR_OK && (rc = json_members_next(&m, &one, NULL)) == ERR_OK)
        n++;
    return rc == ERR_NOT_FOUND ? n : -rc;
}

static void test_members_as_they_stand(void **state)
{
    (void)state;
    static const char *const WANT[][2] = {
        {"a", "1"},          {"b\\\"", "\"x\\\\\""}, {"c", "[ {\"]\": \"}\\\"\"}, [] ]"},
        {"d", "{\"e\":{}}"}, {"f", "-1.5e3"},        {"a", "null"},
    };
    struct json_members m;
    struct json_member one;
    struct str text = STR(" { \"a\" : 1,\"b\\\"\":\"x\\\\\" , \"c\":[ {\"]\": \"}\\\"\"}, [] ],"
                          "\n\"d\":{\"e\":{}},\"f\":-1.5e3 ,\"a\":null} \t");
    assert_int_equal(json_members_open(&m, text, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
        assert_int_equal(json_members_next(&m, &one, NULL), ERR_OK);
        assert_true(str_eq_c(one.key, WANT[i][0]));
        assert_true(str_eq_c(one.value, WANT[i][1]));
    }
    assert_int_equal(json_members_next(&m, &one, NULL), ERR_NOT_FOUND);
    for (size_t n = 0; n < text.n - 2; n++)
        assert_true(count(str_slice(text, 0, n)) < 0);
}

static void test_what_is_no_object(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",           "[]",        "{",          "{\"a\"}",    "{\"a\":}",    "{\"a\":1,}",
        "{,}",        "{\"a\"1}",  "{a:1}",      "{\"a\":1}x", "{\"a\":1 2}", "{\"a\":[}",
        "{\"a\":\"}", "{\"a\":1]", "{\"\\\":1}",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_true(count(str_from(BAD[i])) == -ERR_INVALID);
    assert_int_equal(count(STR("{}")), 0);
    assert_int_equal(count(STR(" { } ")), 0);
}

/* Four megabytes of escapes before the one quote that ends them; quadratic, this took minutes. */
static void test_escapes_cost_no_more(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 8 * MiB);
    buf_put_c(&text, "{\"a\":\"");
    for (int i = 0; i < 2 * 1024 * 1024; i++)
        buf_put_c(&text, i % 2 ? "\\\"" : "\\n");
    buf_put_c(&text, "\"}");
    uint64_t start = clock_cpu_us();
    assert_int_equal(count(buf_str(&text)), 1);
    assert_true(clock_cpu_us() - start < 5000000);
    buf_free(&text);
}

/* A string of each length with an escape at each place, at the end of the text and before more. */
static void test_strings_of_each_length(void **state)
{
    (void)state;
    char text[128];
    struct json_members m;
    struct json_member one;
    for (int n = 2; n < 80; n++) {
        for (int at = 0; at <= n - 2; at++) {
            int length = snprintf(text, sizeof text, "{\"a\":\"%*s\"%s", n, "",
                                  n % 2 ? "}" : " , \"b\":\"\"}");
            text[6 + at] = '\\';
            text[7 + at] = at % 3 ? '"' : '\\';
            struct str all = {text, (size_t)length};
            assert_int_equal(json_members_open(&m, all, NULL), ERR_OK);
            assert_int_equal(json_members_next(&m, &one, NULL), ERR_OK);
            assert_int_equal(one.value.n, n + 2);
            assert_int_equal(count(all), n % 2 ? 1 : 2);
            assert_true(count(str_slice(all, 0, (size_t)n + 6)) < 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_as_they_stand), cmocka_unit_test(test_what_is_no_object),
        cmocka_unit_test(test_strings_of_each_length), cmocka_unit_test(test_escapes_cost_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
