/* Softmax against libm on every instruction set, filters against a full sort, draws against the
 * distribution, penalties by hand, broken rows refused. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/sample/filters.h"
#include "engine/sample/penalties.h"
#include "engine/sample/sampler.h"
#include "engine/sample/softmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1003 };

static void fill_normal(struct rng *r, float *x, size_t n, double spread)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(spread * rng_normal(r));
}

static struct params neutral(double temperature)
{
    struct params p = {.set = (1u << PARAM_COUNT) - 1};
    p.v[PARAM_TEMPERATURE] = temperature;
    p.v[PARAM_TOP_P] = 1;
    p.v[PARAM_REPETITION_PENALTY] = 1;
    return p;
}

static bool is_supported(const struct softmax_ops *ops)
{
    (void)ops; /* elsewhere */
#if defined(__x86_64__)
    if (strcmp(ops->name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f");
    if (strcmp(ops->name, "avx2") == 0)
        return __builtin_cpu_supports("avx2");
#endif
    return true;
}

static void test_exp_matches_libm(void **state)
{
    (void)state;
    float x[N], out[N], first[N];
    struct rng r;
    rng_seed(&r, 3);
    fill_normal(&r, x, N, 20);
    x[5] = -INFINITY;
    double first_sum = 0;
    for (size_t k = 0; softmax_at(k); k++) {
        const struct softmax_ops *ops = softmax_at(k);
        if (!is_supported(ops))
            continue;
        float top = ops->max(x, N);
        double sum = ops->exp_all(x, N, top, 0.7f, out, NULL), want_sum = 0;
        for (int i = 0; i < N; i++) {
            double want = exp(((double)x[i] - (double)top) * (double)0.7f);
            assert_true(fabs((double)out[i] - want) <= 1e-5 * want + 1e-37);
            want_sum += want;
        }
        assert_true(fabs(sum - want_sum) < 1e-5 * want_sum);
        assert_true(out[5] == 0);
        if (first_sum == 0) {
            memcpy(first, out, sizeof out);
            first_sum = sum;
        }
        assert_true(sum == first_sum && memcmp(first, out, sizeof out) == 0);
        assert_true(ops->exp_all(x, N, top, 0.7f, NULL, NULL) == sum);
    }
}

static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->token - y->token;
}

/* The definition, by sorting everything. */
static uint32_t filter_by_sorting(const float *w, uint32_t n, const struct filter_limits *l,
                                  struct candidate *out)
{
    double mass = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct candidate){(int32_t)i, w[i]};
    qsort(out, n, sizeof *out, by_weight);
    uint32_t count = l->top_k && l->top_k < n ? l->top_k : n;
    for (uint32_t i = 0; i < count; i++)
        mass += (double)out[i].weight;
    uint32_t kept = 0;
    while (kept < count && sum < l->top_p * mass)
        sum += (double)out[kept++].weight;
    if (l->top_p >= 1)
        kept = count;
    while (kept > 1 && (double)out[kept - 1].weight < l->min_p * (double)out[0].weight)
        kept--;
    return kept;
}

static void test_filters_equal_full_sort(void **state)
{
    (void)state;
    float x[N], w[N], most[(N + SOFTMAX_BLOCK - 1) / SOFTMAX_BLOCK];
    struct candidate got[N], want[N], spare[N];
    struct rng r;
    rng_seed(&r, 4);
    static const uint32_t KS[] = {0, 1, 2, 40, 500, 5000};
    static const double PS[] = {1, 0.999, 0.9, 0.5, 0.01}, MS[] = {0, 0.05, 0.9};
    for (int round = 0; round < 400; round++) {
        fill_normal(&r, x, N, 0.1 + rng_uniform(&r) * 8);
        for (int i = 0; i < 50; i++) /* ties */
            x[rng_below(&r, N)] = x[0];
        const struct softmax_ops *ops = softmax_select();
        double total = ops->exp_all(x, N, ops->max(x, N), 1, w, NULL);
        ops->block_max(w, N, most);
        const struct filter_row row = {w, most, N, total, spare};
        struct filter_limits l = {KS[rng_below(&r, 6)], PS[rng_below(&r, 5)], MS[rng_below(&r, 3)]};
        uint32_t n = filter_candidates(&row, &l, got);
        uint32_t n_want = filter_by_sorting(w, N, &l, want);
        /* Without top_k the whole row is summed in another order: the nucleus' border may move by
         * one. */
        int off = l.top_k && l.top_k < N ? 0 : 1;
        assert_true(n >= 1 && abs((int)n - (int)n_want) <= off);
        uint32_t shared = n < n_want ? n : n_want;
        for (uint32_t i = 0; i < shared; i++)
            assert_int_equal(got[i].token, want[i].token);
    }
}

static void test_draws_follow_distribution(void **state)
{
    (void)state;
    enum { V = 8, DRAWS = 40000 };
    const float logits[V] = {1, 0, -1, 2, 0.5f, -INFINITY, 1.5f, -3};
    struct params p = neutral(1.3);
    struct sampler *s;
    struct err e;
    assert_ok(sampler_open(&s, V, &e), &e);
    struct sample_spec spec = {.params = &p, .seed = 99};
    double seen[V] = {0}, total = 0, chi2 = 0;
    for (int i = 0; i < DRAWS; i++) {
        struct sample_result got;
        spec.position = (uint64_t)i;
        assert_ok(sampler_draw(s, logits, &spec, &got, &e), &e);
        seen[got.token]++;
    }
    for (int i = 0; i < V; i++)
        total += exp((double)logits[i] / 1.3);
    for (int i = 0; i < V; i++) {
        double want = DRAWS * exp((double)logits[i] / 1.3) / total;
        chi2 += want > 0 ? (seen[i] - want) * (seen[i] - want) / want : 0;
    }
    assert_true(seen[5] == 0);
    assert_true(chi2 < 22.5); /* 6 degrees of freedom, p = 0.001 */
    sampler_close(s);
}

static void test_seed_and_position_decide(void **state)
{
    (void)state;
    float logits[N];
    struct rng r;
    rng_seed(&r, 5);
    fill_normal(&r, logits, N, 1);
    struct params p = neutral(1);
    struct sampler *s;
    assert_int_equal(sampler_open(&s, N, NULL), ERR_OK);
    struct sample_result a, b;
    int differ = 0;
    for (uint64_t i = 0; i < 50; i++) {
        struct sample_spec spec = {.params = &p, .seed = 7, .position = i};
        assert_int_equal(sampler_draw(s, logits, &spec, &a, NULL), ERR_OK);
        assert_int_equal(sampler_draw(s, logits, &spec, &b, NULL), ERR_OK);
        assert_int_equal(a.token, b.token);
        spec.seed = 8;
        assert_int_equal(sampler_draw(s, logits, &spec, &b, NULL), ERR_OK);
        differ += a.token != b.token;
    }
    assert_true(differ > 40);
    sampler_close(s);
}

static void test_greedy_logprob_and_top(void **state)
{
    (void)state;
    const float logits[5] = {1, 3, 3, -2, 2};
    struct params p = neutral(0);
    struct sampler *s;
    struct sample_result got;
    assert_int_equal(sampler_open(&s, 5, NULL), ERR_OK);
    struct sample_spec spec = {.params = &p, .n_top = 3};
    assert_int_equal(sampler_draw(s, logits, &spec, &got, NULL), ERR_OK);
    double sum = 0;
    for (int i = 0; i < 5; i++)
        sum += exp((double)logits[i]);
    assert_int_equal(got.token, 1); /* the lowest id of the tie */
    assert_true(fabs((double)got.logprob - (3 - log(sum))) < 1e-6);
    assert_int_equal(got.n_top, 3);
    assert_int_equal(got.top[0].token, 1);
    assert_int_equal(got.top[1].token, 2);
    assert_int_equal(got.top[2].token, 4);
    assert_true(fabs((double)got.top[2].logprob - (2 - log(sum))) < 1e-6);
    spec.n_top = 20; /* more than the vocabulary */
    assert_int_equal(sampler_draw(s, logits, &spec, &got, NULL), ERR_OK);
    assert_int_equal(got.n_top, 5);
    sampler_close(s);
}

static void test_penalties_by_hand(void **state)
{
    (void)state;
    float logits[4] = {2, -2, 1, 1};
    uint32_t counts[4] = {0};
    struct params p = neutral(1);
    p.v[PARAM_REPETITION_PENALTY] = 2;
    p.v[PARAM_FREQUENCY_PENALTY] = 0.5;
    p.v[PARAM_PRESENCE_PENALTY] = 0.25;
    const int32_t prompt[] = {0, 1, 0, 77}, output[] = {1, 2, 1, -5};
    const struct gen_bias bias[] = {{3, 10}, {900, 1}};
    struct sample_spec spec = {.params = &p,
                               .bias = bias,
                               .n_bias = 2,
                               .prompt = prompt,
                               .n_prompt = 4,
                               .output = output,
                               .n_output = 4};
    assert_true(penalties_needed(&spec));
    penalties_apply(&spec, logits, 4, counts);
    assert_true(logits[0] == 1);              /* in the prompt only: 2 / 2 */
    assert_true(logits[1] == -4 - 1 - 0.25f); /* both: -2 * 2, twice in the output */
    assert_true(logits[2] == 0.5f - 0.5f - 0.25f);
    assert_true(logits[3] == 11);
    for (int i = 0; i < 4; i++)
        assert_int_equal(counts[i], 0);
    p = neutral(1);
    spec.n_bias = 0;
    assert_false(penalties_needed(&spec));
}

static void test_broken_rows(void **state)
{
    (void)state;
    struct params p = neutral(1);
    struct sampler *s;
    struct sample_result got;
    assert_int_equal(sampler_open(&s, 40, NULL), ERR_OK);
    struct sample_spec spec = {.params = &p};
    const float bad[] = {NAN, INFINITY};
    for (int place = 0; place < 40; place += 13) {
        for (int k = 0; k < 2; k++) {
            float logits[40] = {0};
            logits[place] = bad[k];
            assert_int_equal(sampler_draw(s, logits, &spec, &got, NULL), ERR_DEVICE);
        }
    }
    float none[40];
    for (int i = 0; i < 40; i++)
        none[i] = -INFINITY;
    assert_int_equal(sampler_draw(s, none, &spec, &got, NULL), ERR_DEVICE);
    none[7] = -1e30f;
    assert_int_equal(sampler_draw(s, none, &spec, &got, NULL), ERR_OK);
    assert_int_equal(got.token, 7);
    sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_matches_libm),
        cmocka_unit_test(test_filters_equal_full_sort),
        cmocka_unit_test(test_draws_follow_distribution),
        cmocka_unit_test(test_seed_and_position_decide),
        cmocka_unit_test(test_greedy_logprob_and_top),
        cmocka_unit_test(test_penalties_by_hand),
        cmocka_unit_test(test_broken_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
