/* The router's choice where probabilities are equal: the lower numbers, in the order of numbers. */
#include "common/test.h"

#include "tests/kernels/simt/device.h"

enum { N_TOK = 5, N_EXPERT = 70, N_USED = 4 };

/* Token 0: all alike. The others: three experts stand out, of which two are alike, then ties. */
static void make_logits(float logits[N_TOK][N_EXPERT])
{
    for (unsigned t = 0; t < N_TOK; t++) {
        for (unsigned x = 0; x < N_EXPERT; x++)
            logits[t][x] = 0.5f;
        if (t == 0)
            continue;
        logits[t][69] = 2;
        logits[t][(t * 37 + 5) % 64] = 1;
        logits[t][(t * 37 + 41) % 64] = 1;
    }
}

/* The n_used largest by repeated search from the lowest number. */
static void choose(const float *logits, uint32_t *expert)
{
    bool is_taken[N_EXPERT] = {false};
    for (unsigned k = 0; k < N_USED; k++) {
        unsigned best = N_EXPERT;
        for (unsigned x = 0; x < N_EXPERT; x++)
            if (!is_taken[x] && (best == N_EXPERT || logits[x] > logits[best]))
                best = x;
        is_taken[best] = true;
    }
    for (unsigned x = 0, n = 0; x < N_EXPERT; x++)
        if (is_taken[x])
            expert[n++] = x;
}

static void test_ties(void **state)
{
    struct err e;
    float logits[N_TOK][N_EXPERT];
    uint32_t got[N_TOK][N_USED], want[N_USED];
    char text[300];
    struct dev_stream *s = TEST_DEV.stream_open();
    const struct route_args a = {.logits = TEST_DEV.alloc(sizeof logits),
                                 .expert = TEST_DEV.alloc(sizeof got),
                                 .weight = TEST_DEV.alloc(sizeof(float) * N_TOK * N_USED),
                                 .n_tok = N_TOK,
                                 .n_expert = N_EXPERT,
                                 .n_used = N_USED};
    (void)state;
    make_logits(logits);
    for (unsigned order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order(order);
        TEST_DEV.copy((void *)a.logits, logits, sizeof logits, DEV_TO_DEVICE, s);
        TEST_KERNELS.route(&a, s);
        TEST_DEV.copy(got, a.expert, sizeof got, DEV_TO_HOST, s);
        assert_ok(TEST_DEV.sync(s, &e), &e);
        if (simt_take_reports(text, sizeof text))
            fail_msg("%s", text);
        for (unsigned t = 0; t < N_TOK; t++) {
            choose(logits[t], want);
            for (unsigned k = 0; k < N_USED; k++)
                assert_int_equal(got[t][k], want[k]);
        }
    }
    TEST_DEV.release((void *)a.logits);
    TEST_DEV.release(a.expert);
    TEST_DEV.release(a.weight);
    TEST_DEV.stream_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ties)};
    return cmocka_run_group_tests_name("kernels.simt.route", tests, NULL, NULL);
}
