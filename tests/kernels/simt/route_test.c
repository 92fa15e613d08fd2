/* The router's choice against the host's (kernels/route.h), in six orders: equal probabilities, the
 * most experts there can be, one token and many, and scores that are no numbers. Experts are equal;
 * their weights within 1e-6 of the reference, which sums in double (relative L2). */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/route.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_TOK = 9 };
static const double BOUND = 1e-6;

struct scores {
    struct kern_mix_shape shape;
    uint32_t n_tok;
    float logits[MOST_TOK][MAX_EXPERTS]; /* as rows of n_expert on the device */
    bool is_broken;                      /* weights are no numbers either */
};

struct chosen {
    uint32_t expert[MOST_TOK * MAX_USED];
    float weight[MOST_TOK * MAX_USED];
};

static void route_on_device(const struct scores *in, struct chosen *out)
{
    struct err e;
    uint32_t n_expert = in->shape.n_expert, n = in->n_tok * in->shape.n_used;
    struct dev_stream *s = TEST_DEV.stream_open();
    float *logits = TEST_DEV.alloc(sizeof(float) * in->n_tok * n_expert);
    const struct route_args a = {.logits = logits,
                                 .expert = TEST_DEV.alloc(sizeof(uint32_t) * n),
                                 .weight = TEST_DEV.alloc(sizeof(float) * n),
                                 .n_tok = in->n_tok,
                                 .n_expert = n_expert,
                                 .n_used = in->shape.n_used,
                                 .is_normed = in->shape.is_normed};
    for (uint32_t t = 0; t < in->n_tok; t++)
        TEST_DEV.copy(logits + t * n_expert, in->logits[t], sizeof(float) * n_expert, DEV_TO_DEVICE,
                      s);
    TEST_KERNELS.route(&a, s);
    TEST_DEV.copy(out->expert, a.expert, sizeof(uint32_t) * n, DEV_TO_HOST, s);
    TEST_DEV.copy(out->weight, a.weight, sizeof(float) * n, DEV_TO_HOST, s);
    assert_ok(TEST_DEV.sync(s, &e), &e);
    TEST_DEV.release(logits);
    TEST_DEV.release(a.expert);
    TEST_DEV.release(a.weight);
    TEST_DEV.stream_close(s);
}

static void compare(const struct scores *in, const struct chosen *got)
{
    double error = 0, size = 0;
    for (uint32_t t = 0, n = in->shape.n_used; t < in->n_tok; t++) {
        uint32_t expert[MAX_USED];
        float weight[MAX_USED];
        route_token(&in->shape, in->logits[t], expert, weight);
        for (uint32_t k = 0; k < n; k++) {
            double w = (double)got->weight[t * n + k];
            if (!in->is_broken)
                assert_int_equal(got->expert[t * n + k], expert[k]);
            assert_true(got->expert[t * n + k] < in->shape.n_expert);
            assert_int_equal(isnan(w), in->is_broken);
            error += (w - (double)weight[k]) * (w - (double)weight[k]);
            size += (double)weight[k] * (double)weight[k];
        }
    }
    assert_true(in->is_broken || sqrt(error / size) < BOUND);
}

static void check(const struct scores *in)
{
    char text[300];
    for (unsigned order = 0; order < SIMT_ORDERS; order++) {
        struct chosen got;
        simt_set_order(order);
        route_on_device(in, &got);
        if (simt_take_reports(text, sizeof text))
            fail_msg("%s", text);
        compare(in, &got);
    }
}

/* Token 0: all alike. The others: three experts stand out, of which two are alike, then ties. */
static void test_ties(void **state)
{
    struct scores in = {{.n_expert = 70, .n_used = 4}, .n_tok = 5};
    (void)state;
    for (unsigned t = 0; t < in.n_tok; t++) {
        for (unsigned x = 0; x < 70; x++)
            in.logits[t][x] = 0.5f;
        if (t == 0)
            continue;
        in.logits[t][69] = 2;
        in.logits[t][(t * 37 + 5) % 64] = 1;
        in.logits[t][(t * 37 + 41) % 64] = 1;
    }
    check(&in);
}

static void test_random(void **state)
{
    static const struct scores CASES[] = {
        {{.n_expert = 1, .n_used = 1, .is_normed = true}, .n_tok = 1},
        {{.n_expert = 33, .n_used = 2}, .n_tok = 4},
        {{.n_expert = 128, .n_used = 8, .is_normed = true}, .n_tok = MOST_TOK},
        {{.n_expert = MAX_EXPERTS, .n_used = MAX_USED, .is_normed = true}, .n_tok = 1},
        {{.n_expert = MAX_EXPERTS - 1, .n_used = MAX_USED}, .n_tok = 3}};
    struct rng r;
    (void)state;
    rng_seed(&r, 1);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct scores in = CASES[i];
        for (unsigned t = 0; t < in.n_tok; t++)
            for (unsigned x = 0; x < in.shape.n_expert; x++)
                in.logits[t][x] = (float)(3 * rng_normal(&r));
        check(&in);
    }
}

/* One that is no number counts as the lowest. Where nothing else is left, any experts may come, but
 * as many as are asked for. */
static void test_no_numbers(void **state)
{
    struct scores in = {{.n_expert = 40, .n_used = 3, .is_normed = true}, .n_tok = 3};
    (void)state;
    for (unsigned t = 0; t < in.n_tok; t++)
        for (unsigned x = 0; x < 40; x++)
            in.logits[t][x] = x % 5 == t ? NAN : (float)(x * 7 % 40) / 10;
    check(&in);
    in.is_broken = true;
    for (unsigned kind = 0; kind < 4; kind++) {
        in.shape.is_normed = kind % 2;
        for (unsigned t = 0; t < in.n_tok; t++)
            for (unsigned x = 0; x < 40; x++)
                in.logits[t][x] = kind < 2 ? NAN : -INFINITY;
        check(&in);
    }
    for (unsigned t = 0; t < in.n_tok; t++)
        in.logits[t][t] = INFINITY;
    check(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ties), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_no_numbers)};
    return cmocka_run_group_tests_name("kernels.simt.route", tests, NULL, NULL);
}
