/* Parameters: ranges, suggestions, resolution order with caps, hashes. */
#include "schemas/params.h"

#include "common/test.h"

#include <math.h>
#include <string.h>

static int decode_set(const char *text, struct arena *a, struct param_set *out, struct err *e)
{
    json_t *v = NULL;
    assert_int_equal(json_parse(str_from(text), 0, &v, e), ERR_OK);
    struct json_at at = json_root(v);
    int rc = param_set_decode(&at, a, out, e);
    json_decref(v);
    return rc;
}

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct param_info *info = param_info((enum param_id)i);
        enum param_id found;
        assert_non_null(info->name);
        assert_true(info->min < info->max && strlen(info->help) > 10);
        assert_true(info->fallback >= info->min && info->fallback <= info->max);
        assert_true(param_find(str_from(info->name), &found) && (int)found == i);
    }
    enum param_id found;
    assert_false(param_find(STR("temprature"), &found));
}

static void test_ranges(void **state)
{
    (void)state;
    struct params p = {0};
    struct err e = {0};
    assert_int_equal(params_put(&p, PARAM_TOP_P, 1.01, &e), ERR_INVALID);
    assert_string_equal(e.msg, "top_p: must be a number from 0 to 1, got 1.01");
    assert_int_equal(params_put(&p, PARAM_TOP_P, NAN, &e), ERR_INVALID);
    assert_int_equal(params_put(&p, PARAM_MAX_NEW_TOKENS, 0, &e), ERR_INVALID);
    assert_int_equal(params_put(&p, PARAM_MAX_NEW_TOKENS, 1.5, &e), ERR_INVALID);
    assert_int_equal(p.set, 0);
    assert_int_equal(params_put(&p, PARAM_TEMPERATURE, -0.0, &e), ERR_OK);
    assert_false(signbit(p.v[PARAM_TEMPERATURE]));
}

static void test_decode_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"temprature\":1}", "did you mean temperature?"},
        {"{\"xyzzy\":1}", "unknown parameter"},
        {"{\"temperature\":\"hot\"}", "$.temperature: must be a number"},
        {"{\"temperature\":6}", "got 6"},
        {"{\"top_k\":1.5}", "an integer"},
        {"{\"max_new_tokens\":1e300}", "an integer"},
        {"{\"stop\":\"x\"}", "an array"},
        {"{\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", "at most 4"},
        {"{\"stop\":[\"\"]}", "1 to 256"},
        {"{\"stop\":[5]}", "$.stop[0]"},
        {"{\"caps\":{\"temperature\":9}}", "$.caps.temperature"},
        {"{\"caps\":{\"caps\":{}}}", "caps"},
        {"{\"caps\":{\"stop\":[\"x\"]}}", "only numbers"},
        {"{\"caps\":5}", "an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        struct param_set set;
        struct err e = {0};
        arena_init(&a, MiB);
        assert_int_equal(decode_set(cases[i].text, &a, &set, &e), ERR_INVALID);
        if (!strstr(e.msg, cases[i].part))
            fail_msg("%s: '%s' lacks '%s'", cases[i].text, e.msg, cases[i].part);
        arena_free(&a);
    }
}

static void test_hash_ignores_order_and_form(void **state)
{
    (void)state;
    struct arena a;
    struct param_set x, y, z;
    struct err e = {0};
    char hx[65], hy[65], hz[65];
    arena_init(&a, MiB);
    assert_ok(decode_set("{\"temperature\":1,\"top_k\":3.0,\"stop\":[\"x\"]}", &a, &x, &e), &e);
    assert_ok(decode_set("{\"stop\":[\"x\"],\"top_k\":3,\"temperature\":1.0}", &a, &y, &e), &e);
    assert_ok(decode_set("{\"stop\":[\"x\"],\"top_k\":3,\"temperature\":1.1}", &a, &z, &e), &e);
    param_set_hash(&x, hx);
    param_set_hash(&y, hy);
    param_set_hash(&z, hz);
    assert_string_equal(hx, hy);
    assert_string_not_equal(hx, hz);
    struct param_set empty = {0};
    param_set_hash(&empty, hx); /* SHA-256 of {} */
    assert_string_equal(hx, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    arena_free(&a);
}

static void test_resolve(void **state)
{
    (void)state;
    struct arena a;
    struct param_set revision;
    struct params client = {0}, p;
    struct err e = {0};
    arena_init(&a, MiB);
    assert_ok(decode_set("{\"temperature\":0.5,\"top_p\":0.9,\"stop\":[\"END\"],"
                         "\"caps\":{\"max_new_tokens\":100,\"top_k\":40,\"temperature\":1}}",
                         &a, &revision, &e),
              &e);
    params_resolve(&revision, NULL, &p);
    assert_true(p.v[PARAM_TEMPERATURE] == 0.5 && p.v[PARAM_TOP_P] == 0.9);
    assert_true(p.v[PARAM_MAX_NEW_TOKENS] == 100 && p.v[PARAM_TOP_K] == 40);
    assert_true(p.v[PARAM_REPETITION_PENALTY] == 1);
    assert_int_equal(p.set, (1u << PARAM_COUNT) - 1);
    assert_str(p.stop[0], "END");
    assert_ok(params_put(&client, PARAM_TEMPERATURE, 1.8, &e), &e);
    assert_ok(params_put(&client, PARAM_MAX_NEW_TOKENS, 7, &e), &e);
    assert_ok(params_put(&client, PARAM_TOP_K, -1, &e), &e);
    client.stop[0] = STR("S");
    client.n_stop = 1;
    params_resolve(&revision, &client, &p);
    assert_true(p.v[PARAM_TEMPERATURE] == 1 && p.v[PARAM_MAX_NEW_TOKENS] == 7);
    assert_true(p.v[PARAM_TOP_K] == 40);
    assert_int_equal(p.n_stop, 1);
    assert_str(p.stop[0], "S");
    arena_free(&a);
}

static void test_unknown_is_left_out_of_records(void **state)
{
    (void)state;
    struct arena a;
    struct params p;
    struct err e = {0};
    arena_init(&a, MiB);
    json_t *v = json_pack("{s:f, s:i}", "temperature", 0.5, "invented_later", 1);
    struct json_at at = json_root(v);
    assert_int_equal(params_decode(&at, &a, &p, &e), ERR_INVALID);
    assert_ok(params_decode_known(&at, &a, &p, &e), &e);
    assert_true(p.v[PARAM_TEMPERATURE] == 0.5);
    json_decref(v);
    arena_free(&a);
}

static void test_text_is_that_of_the_tree(void **state)
{
    (void)state;
    static const char *const SETS[] = {
        "{}", "{\"stop\":[\"a\\n\\\"\",\"\u00e9\"]}",
        "{\"temperature\":0.7,\"top_k\":40,\"weights\":\"w\\\\2\",\"stop\":[\"x\"]}",
        "{\"top_p\":0.1234567890123,\"max_new_tokens\":17,\"presence_penalty\":-0.5}"};
    struct arena a;
    arena_init(&a, 64 * KiB);
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        struct param_set set;
        struct err e;
        struct buf tree, text;
        buf_init(&tree, KiB);
        buf_init(&text, KiB);
        assert_ok(decode_set(SETS[i], &a, &set, &e), &e);
        json_t *v = params_encode(&set.defaults);
        assert_ok(json_write(v, &tree, &e), &e);
        params_write(&set.defaults, &text);
        assert_false(text.failed);
        assert_true(str_eq(buf_str(&tree), buf_str(&text)));
        json_decref(v);
        buf_free(&tree);
        buf_free(&text);
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_decode_refuses),
        cmocka_unit_test(test_hash_ignores_order_and_form),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_text_is_that_of_the_tree),
        cmocka_unit_test(test_unknown_is_left_out_of_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
