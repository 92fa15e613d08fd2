/* Shots with known times give known numbers. */
#include "common/test.h"

#include "controller/cli/bench/plot.h"
#include "controller/cli/bench/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N = 5, MS = 1000 };

/* Request i arrives at i ms, first text 10 (i + 1) ms later, then 4 gaps of 2 ms; the last one
 * failed. */
static void fill(struct shot *shots, uint32_t gaps[4])
{
    for (int i = 0; i < 4; i++)
        gaps[i] = 2 * MS;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t due = (1000 + i) * MS, first = due + 10 * (i + 1) * MS;
        shots[i] = (struct shot){.conversation = (uint32_t)i,
                                 .turn = i % 2,
                                 .due_us = due,
                                 .start_us = due,
                                 .first_us = first,
                                 .end_us = first + 8 * MS,
                                 .prompt_tokens = 100,
                                 .cached_tokens = 30,
                                 .completion_tokens = 5,
                                 .gap_us = gaps,
                                 .n_gap = 4,
                                 .is_ok = i + 1 < N};
    }
    snprintf(shots[N - 1].error, sizeof shots[0].error, "status <503>");
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-9);
}

static void test_numbers(void **state)
{
    (void)state;
    struct shot shots[N];
    struct summary s;
    uint32_t gaps[4];
    struct err e;

    fill(shots, gaps);
    assert_int_equal(
        summary_make(&s, shots, N, 1000 * MS, &(struct slo){.ttft_ms = 25, .tpot_ms = 2}, &e),
        ERR_OK);
    assert_int_equal(s.n_sent, N);
    assert_int_equal(s.n_ok, 4);
    assert_int_equal(s.n_failed, 1);
    assert_int_equal(s.n_good, 2);
    assert_string_equal(s.first_error, "status <503>");
    near(s.seconds, 0.062); /* the last end is the failed one's: 4 + 50 + 8 ms */
    near(series_at(&s.ttft, 0), 10);
    near(series_at(&s.ttft, 0.5), 25);
    near(series_at(&s.ttft, 1), 40);
    near(series_mean(&s.e2e), 33);
    near(series_at(&s.tpot, 0.5), 2);
    assert_int_equal(s.gap.n, 16);
    assert_int_equal(s.completion_tokens, 20);
    assert_int_equal(s.n_turns, 2);
    near(s.turn[1].ttft_sum_ms, 20 + 40);
    summary_free(&s);
}

static void test_nothing_sent(void **state)
{
    (void)state;
    struct shot shot = {0};
    struct summary s;
    struct err e;

    assert_int_equal(summary_make(&s, &shot, 1, 0, &(struct slo){0}, &e), ERR_OK);
    assert_int_equal(s.n_sent, 0);
    assert_true(isnan(series_at(&s.ttft, 0.5)));
    json_t *o = summary_json(&s, &(struct slo){0});
    assert_true(json_is_null(json_object_get(json_object_get(o, "ttft_ms"), "p50")));
    json_decref(o);
    summary_free(&s);
}

static void test_plot_escapes(void **state)
{
    (void)state;
    struct shot shots[N];
    struct summary s;
    uint32_t gaps[4];
    struct err e;
    char path[] = "/tmp/milepost-plot-XXXXXX", text[64 * 1024];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    fill(shots, gaps);
    assert_int_equal(summary_make(&s, shots, N, 1000 * MS, &(struct slo){0}, &e), ERR_OK);
    assert_int_equal(plot_write(path, "a<script>&", &s, shots, N, 1000 * MS, &e), ERR_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    assert_non_null(strstr(text, "a&lt;script>&amp;"));
    assert_non_null(strstr(text, "class='x'"));
    assert_null(strstr(text, "nan"));
    unlink(path);
    assert_int_equal(plot_write("/nonexistent/x", "t", &s, shots, N, 0, &e), ERR_IO);
    summary_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_nothing_sent),
        cmocka_unit_test(test_plot_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
