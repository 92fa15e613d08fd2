/* controller/policies/baseline.c - scales and the length curve of the champion. Pure. */
#include "controller/policies/baseline.h"

#include <math.h>

#define PRIOR     10.0 /* rows by which a bin is drawn to the overall mean */
#define NOT_KNOWN ((double)NAN)

const struct state_field BASELINE_FIELDS[] = {
    STATE_NUMBER(struct baseline, n_tokens, STATE_U64),
    STATE_NUMBER(struct baseline, n_latency, STATE_U64),
    STATE_NUMBER(struct baseline, sum_tokens, STATE_F64),
    STATE_NUMBER(struct baseline, sum_latency_us, STATE_F64),
    STATE_NUMBERS(struct baseline, n, STATE_F64, BASELINE_BINS),
    STATE_NUMBERS(struct baseline, sum, STATE_F64, BASELINE_BINS),
    STATE_END,
};

static int bin_of(uint64_t tokens)
{
    int bin = 0;
    while (tokens && bin < BASELINE_BINS - 1) {
        tokens >>= 1;
        bin++;
    }
    return bin;
}

static double scored_rows(const struct baseline *b)
{
    double n = 0.0;
    for (int i = 0; i < BASELINE_BINS; i++)
        n += b->n[i];
    return n;
}

static double overall_mean(const struct baseline *b)
{
    double sum = 0.0;
    for (int i = 0; i < BASELINE_BINS; i++)
        sum += b->sum[i];
    return sum / scored_rows(b);
}

void baseline_add(struct baseline *b, const struct unit_row *row, bool is_freezing)
{
    if (!(is_freezing && b->n_tokens >= BASELINE_SCALE_ROWS)) {
        b->n_tokens++;
        b->sum_tokens += (double)row->tokens;
    }
    if (row->latency_us && !(is_freezing && b->n_latency >= BASELINE_SCALE_ROWS)) {
        b->n_latency++;
        b->sum_latency_us += (double)row->latency_us;
    }
    if (row->flags & UNIT_SCORED && !(is_freezing && scored_rows(b) >= BASELINE_CURVE_ROWS)) {
        b->n[bin_of(row->tokens)] += 1.0;
        b->sum[bin_of(row->tokens)] += row->reward;
    }
}

static double share(double value, uint64_t n, double sum, double reach)
{
    if (n < BASELINE_SCALE_ROWS || !(sum > 0.0))
        return NOT_KNOWN;
    return fmin(1.0, value * (double)n / (reach * sum));
}

double baseline_tokens(const struct baseline *b, const struct unit_row *row, double reach)
{
    return share((double)row->tokens, b->n_tokens, b->sum_tokens, reach);
}

double baseline_latency(const struct baseline *b, const struct unit_row *row, double reach)
{
    double us = (double)row->latency_us;
    return us > 0.0 ? share(us, b->n_latency, b->sum_latency_us, reach) : NOT_KNOWN;
}

double baseline_residual(const struct baseline *b, const struct unit_row *row)
{
    if (!(scored_rows(b) >= BASELINE_CURVE_ROWS))
        return NOT_KNOWN;
    int i = bin_of(row->tokens);
    double f = (b->sum[i] + PRIOR * overall_mean(b)) / (b->n[i] + PRIOR);
    return 0.5 * (row->reward - fmin(1.0, fmax(0.0, f)) + 1.0);
}
