/* What is read directly and what goes over the tree come to the same: each member of a record in
 * the plain form and in others, of a key that comes twice the last, and what is wrong is named. */
#include "schemas/output.h"

#include "common/test.h"

#include <string.h>

static const char BASE[] =
    "\"engine\":\"e\",\"epoch\":1,\"seq\":2,\"request_id\":\"r\",\"route\":\"d\",\"revision\":3,"
    "\"arm\":\"a\",\"propensity\":0.5,\"admission\":4,\"text\":\"t\",\"finish_reason\":\"stop\","
    "\"prompt_tokens\":5,\"completion_tokens\":6,\"created_us\":7,\"effective\":{\"top_k\":40},"
    "\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"metadata\":{\"a\":1}";

/* The record with one more member, which then counts for its key. */
static int recode(const char *member, struct buf *out, struct err *e)
{
    struct buf text;
    struct arena a;
    struct output o;
    buf_init(&text, 64 * KiB);
    arena_init(&a, MiB);
    buf_reset(out);
    buf_printf(&text, "{\"schema\":\"" OUTPUT_SCHEMA "\",%s%s%s}", BASE, *member ? "," : "",
               member);
    int rc = output_decode(buf_str(&text), &a, &o, e);
    if (rc == ERR_OK)
        rc = output_encode(&o, out, e);
    buf_free(&text);
    arena_free(&a);
    return rc;
}

static void test_both_ways_agree(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"\"seq\":9", "\"seq\":9.0"},
        {"\"seq\":9", "\"seq\" : 9"},
        {"\"seq\":9", "\"seq\":8,\"seq\":9.0"},
        {"\"seq\":9", "\"seq\":8.0,\"seq\":9"},
        {"\"seq\":123456789012345", "\"seq\":123456789012345.0"},
        {"\"choice\":0", "\"choice\":null"},
        {"\"propensity\":0.125", "\"propensity\":1.25e-1"},
        {"\"propensity\":1", "\"propensity\":1.0"},
        {"\"created_us\":-7", "\"created_us\":-7.0"},
        {"\"text\":\"a\\n\\\"b\\\\\\/\"", "\"text\":\"a\\u000a\\u0022b\\u005c/\""},
        {"\"text\":\"\xC3\xA4\"", "\"text\":\"\\u00e4\""},
        {"\"text\":\"\xF0\x9D\x84\x9E\"", "\"text\":\"\\ud834\\udd1e\""},
        {"\"text\":\"\"", "\"text\": \"\" "},
        {"\"effective\":{\"top_k\":7,\"temperature\":0.25}",
         "\"effective\":{\"later\":[],\"top_k\":7.0,\"temperature\":25e-2}"},
        {"\"effective\":{}", "\"effective\":{\"top_k\":null}"},
        {"\"messages\":[]", "\"messages\":null,\"messages\":[ ]"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"\"}]",
         "\"messages\":[{\"content\":\"\",\"name\":1,\"role\":\"user\"}]"},
        {"\"metadata\":{\"k\":[1,2]}", "\"metadata\": {\"k\" : [1, 2]}"},
        {"\"token_ids\":[1,20],\"logprobs\":[-0.5,0.0]",
         "\"token_ids\":[1, 20],\"logprobs\":[-5e-1,0]"},
        {"", "\"later\":{\"deep\":[[[]]]}"},
    };
    struct buf one, other;
    struct err e = {0};
    buf_init(&one, 64 * KiB);
    buf_init(&other, 64 * KiB);
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        assert_ok(recode(pair[i][0], &one, &e), &e);
        if (recode(pair[i][1], &other, &e) != ERR_OK)
            fail_msg("%s: %s", pair[i][1], e.msg);
        if (!str_eq(buf_str(&one), buf_str(&other)))
            fail_msg("%s and %s differ:\n" STR_FMT "\n" STR_FMT, pair[i][0], pair[i][1],
                     STR_ARG(buf_str(&one)), STR_ARG(buf_str(&other)));
    }
    buf_free(&one);
    buf_free(&other);
}

/* The NUL of a field's name is not the end of the key. */
static void test_a_key_with_a_nul_is_no_field(void **state)
{
    (void)state;
    static const char MEMBER[] = ",\"seq\0, and on, and on\":9}";
    struct buf text;
    struct arena a;
    struct output o = {0};
    struct err e = {0};
    buf_init(&text, 64 * KiB);
    arena_init(&a, MiB);
    buf_printf(&text, "{\"schema\":\"" OUTPUT_SCHEMA "\",%s", BASE);
    buf_put(&text, MEMBER, sizeof MEMBER - 1);
    if (output_decode(buf_str(&text), &a, &o, &e) == ERR_OK)
        assert_int_equal(o.seq, 2);
    buf_free(&text);
    arena_free(&a);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"\"seq\":-1", "$.seq: must be an integer from 0 to 9223372036854775807, got -1"},
        {"\"seq\":1.5", "$.seq: must be an integer"},
        {"\"seq\":01", "not valid JSON"},
        {"\"seq\":null", "$.seq: missing"},
        {"\"choice\":4294967296", "$.choice: must be an integer from 0 to 4294967295"},
        {"\"propensity\":1.5", "$.propensity: must be a number from 0 to 1, got 1.5"},
        {"\"text\":7", "$.text: must be a string, got 7"},
        {"\"text\":\"\x01\"", "not valid JSON"},
        {"\"text\":\"\\ud834\"", "not valid JSON"},
        {"\"text\":\"\xFF\"", "not valid JSON"},
        {"\"arm\":\"\"", "$.arm: text of 0 bytes; 1 to 256 are allowed"},
        {"\"later\":[}", "not valid JSON"},
        {"\"messages\":[{\"role\":\"\",\"content\":\"\"}]", "$.messages[0].role: text of 0 bytes"},
        {"\"messages\":[1]", "$.messages[0]: must be an object, got 1"},
        {"\"effective\":{\"top_k\":-7}", "$.effective.top_k: must be"},
        {"\"effective\":null", "$.effective"},
        {"\"metadata\":[]", "$.metadata: must be an object"},
        {"\"token_ids\":[1,-2]", "$.token_ids[1]: must be an integer from 0"},
        {"\"token_ids\":[1,02]", "not valid JSON"},
        {"\"token_ids\":[1,2],\"logprobs\":[-1.0]", "$.logprobs: has 1 items"},
        {"\"schema\":\"milepost.output.v2\"", "milepost.output.v2"},
    };
    struct buf out;
    buf_init(&out, 64 * KiB);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err e = {0};
        if (recode(wrong[i][0], &out, &e) == ERR_OK || !strstr(e.msg, wrong[i][1]))
            fail_msg("%s: '%s', expected '%s'", wrong[i][0], e.msg, wrong[i][1]);
    }
    buf_free(&out);
}

/* The last value counts; what came before it still has to be JSON. */
static void test_an_earlier_value_is_read_too(void **state)
{
    (void)state;
    static const char *const broken[] = {"{\"a\":tru}", "{\"a\xc3\":1}"};
    struct err e = {0};
    struct buf out;
    buf_init(&out, 64 * KiB);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char member[128];
        snprintf(member, sizeof member, "\"metadata\":%s,\"metadata\":{}", broken[i]);
        assert_int_not_equal(recode(member, &out, &e), ERR_OK);
    }
    assert_ok(recode("\"metadata\":{\"a\":true},\"metadata\":{}", &out, &e), &e);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_earlier_value_is_read_too),
        cmocka_unit_test(test_both_ways_agree),
        cmocka_unit_test(test_a_key_with_a_nul_is_no_field),
        cmocka_unit_test(test_what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
