/* Both ways of reading agree with each other and with what was written; what is wrong is named. */
#include "common/test.h"

#include "common/rng.h"
#include "schemas/token_lists.h"

#include <math.h>
#include <string.h>

enum { N = 2000 };

static int read_lists(const char *ids, const char *logprobs, struct arena *a, struct output *o,
                      struct err *e)
{
    *o = (struct output){0};
    return token_lists_read(str_from(ids), str_from(logprobs), a, o, e);
}

/* Sizes from 1e-9 to 1e3, as log-probabilities have them. */
static void test_what_is_written_is_read(void **state)
{
    (void)state;
    struct rng r;
    struct arena a;
    struct buf text;
    struct output back = {0};
    static int32_t ids[N];
    static float logprobs[N];
    rng_seed(&r, 3);
    for (int i = 0; i < N; i++) {
        ids[i] = (int32_t)rng_below(&r, INT32_MAX);
        logprobs[i] = (float)-pow(10, 12 * rng_uniform(&r) - 9);
    }
    logprobs[0] = 0, logprobs[1] = -0.0f, logprobs[2] = -INFINITY, logprobs[3] = -0.1f;
    const struct output o = {.token_ids = ids, .logprobs = logprobs, .n_tokens = N};
    arena_init(&a, MiB);
    buf_init(&text, MiB);
    buf_put_c(&text, "{}");
    token_lists_append(&text, &o);
    struct str s = buf_str(&text);
    size_t cut = (size_t)str_find(s, STR(",\"logprobs\":"), 0),
           first = sizeof "{,\"token_ids\":" - 1;
    struct err e;
    assert_int_equal(token_lists_read(str_slice(s, first, cut),
                                      str_slice(s, cut + sizeof ",\"logprobs\":" - 1, s.n - 1), &a,
                                      &back, &e),
                     ERR_OK);
    assert_int_equal(back.n_tokens, N);
    assert_memory_equal(back.token_ids, ids, sizeof ids);
    assert_true(isnan(back.logprobs[2]));
    for (int i = 0; i < N; i++)
        if (i != 2)
            assert_true(back.logprobs[i] == logprobs[i] ||
                        fabsf(back.logprobs[i] - logprobs[i]) < 1e-13f);
    buf_free(&text);
    arena_free(&a);
}

static void test_forms_that_are_not_plain(void **state)
{
    (void)state;
    struct arena a;
    struct output o;
    struct err e;
    arena_init(&a, MiB);
    assert_int_equal(read_lists(" [1, 2,3.0]", "[-1e-3,null,-12345678901234567890.5]", &a, &o, &e),
                     ERR_OK);
    assert_true(o.n_tokens == 3 && o.token_ids[2] == 3);
    assert_true(o.logprobs[0] == -1e-3f && isnan(o.logprobs[1]) && o.logprobs[2] < -1.2e19f);
    assert_int_equal(read_lists("[]", "[]", &a, &o, &e), ERR_OK);
    assert_true(o.n_tokens == 0 && o.token_ids && o.logprobs);
    assert_int_equal(read_lists("null", "", &a, &o, &e), ERR_OK);
    assert_null(o.token_ids);
    arena_free(&a);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const char *const BAD[][3] = {
        {"[1,-2]", "", "$.token_ids[1]"},
        {"[1,2147483648]", "", "$.token_ids[1]"},
        {"[1,\"2\"]", "", "$.token_ids[1]"},
        {"[1,02]", "", "not valid JSON"},
        {"[1,]", "", "not valid JSON"},
        {"[1 2]", "", "not valid JSON"},
        {"{}", "", "$.token_ids"},
        {"[1,2]", "[-0.5]", "has 1 items"},
        {"[1]", "[0.5]", "$.logprobs[0]"},
        {"[1]", "[-.5]", "not valid JSON"},
        {"[1]", "[-01.5]", "not valid JSON"},
        {"[1]", "[-1.]", "not valid JSON"},
    };
    struct arena a;
    struct output o;
    struct err e;
    arena_init(&a, MiB);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_int_equal(read_lists(BAD[i][0], BAD[i][1], &a, &o, &e), ERR_INVALID);
        assert_non_null(strstr(e.msg, BAD[i][2]));
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_written_is_read),
                                       cmocka_unit_test(test_forms_that_are_not_plain),
                                       cmocka_unit_test(test_what_is_wrong_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
