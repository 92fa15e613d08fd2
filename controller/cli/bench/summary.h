/* controller/cli/bench/summary.h - shots into the numbers people compare. Pure.
 *
 * TTFT: arrival to the first text. Gap (ITL): between two events with text. TPOT: (end - first) /
 * (tokens - 1), a request's mean time per output token. E2e: arrival to end. Goodput: requests a
 * second that met every limit given (as in DistServe, arXiv 2401.09670). Failed requests count in
 * no distribution and in the goodput's denominator only. */
#ifndef CONTROLLER_CLI_BENCH_SUMMARY_H
#define CONTROLLER_CLI_BENCH_SUMMARY_H

#include "controller/cli/bench/shot.h"

#include <jansson.h>

enum { SUMMARY_MAX_TURNS = 64 };

struct slo { /* 0 = no limit */
    double ttft_ms, tpot_ms, e2e_ms;
};

/* Milliseconds, sorted rising. Release with series_free. */
struct series {
    double *v;
    size_t n, cap;
};

struct summary {
    uint32_t n_sent, n_ok, n_failed, n_good;
    double seconds; /* begin to the last end */
    uint64_t prompt_tokens, cached_tokens, completion_tokens;
    struct series ttft, gap, tpot, e2e;
    uint32_t n_turns;
    struct {
        uint32_t n;
        double ttft_sum_ms, e2e_sum_ms;
        uint64_t prompt_tokens, cached_tokens;
    } turn[SUMMARY_MAX_TURNS];
    const char *first_error; /* borrowed from the shots; NULL = none */
};

MUST_USE int summary_make(struct summary *s, const struct shot *shots, uint32_t n,
                          uint64_t begin_us, const struct slo *slo, struct err *e);
void summary_free(struct summary *s);
/* Linear between the two nearest ranks, q in [0, 1]; NaN when empty. */
double series_at(const struct series *s, double q);
double series_mean(const struct series *s);
/* New object of all of it; never NULL unless memory is out. */
json_t *summary_json(const struct summary *s, const struct slo *slo);

#endif
