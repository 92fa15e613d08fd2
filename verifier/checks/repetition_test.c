/* Both rules against brute force; work stays bounded on the texts that cost most. */
#include "common/rng.h"
#include "verifier/check_harness.h"

static bool tail_repeats(const int32_t *t, size_t n, size_t min, size_t max, size_t count)
{
    for (size_t p = min; p <= max; p++) {
        bool same = p * count <= n;
        for (size_t i = 0; same && i < p * (count - 1); i++)
            same = t[n - 1 - i] == t[n - 1 - i - p];
        if (same)
            return true;
    }
    return false;
}

static void test_tail_against_brute_force(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 7);
    for (int trial = 0; trial < 2000; trial++) {
        int32_t token[24];
        uint32_t n = (uint32_t)rng_below(&r, 25);
        for (uint32_t i = 0; i < n; i++)
            token[i] = (int32_t)rng_below(&r, 2);
        struct output o = {.token_ids = token, .n_tokens = n};
        struct check_verdict v = harness_run(
            "repetition", "{\"max\":1,\"tail_min\":2,\"tail_max\":4,\"tail_count\":3}", &o, NULL);
        assert_int_equal(v.outcome == SCORE_FAIL, tail_repeats(token, n, 2, 4, 3));
    }
}

/* 1 - unique/total by comparing every pair. Words are single letters. */
static double ngram_share(const char *words, size_t n_words, size_t n)
{
    if (n_words < n)
        return 0;
    size_t total = n_words - n + 1, unique = 0;
    for (size_t i = 0; i < total; i++) {
        bool is_new = true;
        for (size_t j = 0; j < i && is_new; j++)
            is_new = memcmp(words + 2 * i, words + 2 * j, 2 * n - 1) != 0;
        unique += is_new;
    }
    return 1.0 - (double)unique / (double)total;
}

static void test_ngrams_against_brute_force(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 11);
    for (int trial = 0; trial < 2000; trial++) {
        char text[64];
        size_t words = rng_below(&r, 31);
        for (size_t i = 0; i < words; i++) {
            text[2 * i] = (char)('a' + rng_below(&r, 3));
            text[2 * i + 1] = ' ';
        }
        struct str s = {text, words * 2};
        struct check_verdict v = harness_text("repetition", "{\"n\":2,\"tail_max\":0}", s, NULL);
        assert_true(v.measure == ngram_share(text, words, 2));
        assert_int_equal(v.outcome, v.measure <= 0.5 ? SCORE_PASS : SCORE_FAIL);
    }
}

static void test_hostile(void **state)
{
    (void)state;
    struct str text = harness_repeat("a ", 5 * 1024 * 1024);
    assert_string_equal(harness_text("repetition", "{}", text, NULL).reason, "repeats");
    free((char *)text.p);
    text = harness_repeat("a", 10 * 1024 * 1024);
    assert_int_equal(harness_text("repetition", "{}", text, NULL).outcome, SCORE_PASS);
    free((char *)text.p);
    uint32_t n = 1 << 20;
    int32_t *token = calloc(n, sizeof *token); /* every period fits until its very last step */
    assert_non_null(token);
    struct output o = {.token_ids = token, .n_tokens = n};
    struct check_verdict v =
        harness_run("repetition", "{\"tail_min\":1,\"tail_max\":1024,\"tail_count\":64}", &o, NULL);
    assert_string_equal(v.reason, "loop");
    free(token);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("repetition", "{\"tail_min\":5,\"tail_max\":4}", "at most tail_max (4)");
    harness_refuses("repetition", "{\"tail_max\":1024,\"tail_count\":1000}", "at most 65536");
    harness_refuses("repetition", "{\"n\":0}", "n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail_against_brute_force),
        cmocka_unit_test(test_ngrams_against_brute_force),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
