/* The threshold falls by a factor of 16 a round from the largest weight, so a peaked distribution
 * (the usual case) ends after one or two cheap passes and a sort of a few dozen; blocks whose
 * largest lies below are passed over. Many candidates (a flat distribution) are sorted by radix. */
#include "engine/sample/filters.h"

#include "engine/sample/softmax.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 10, DIGITS = 3, BUCKETS = 1 << DIGIT_BITS, FEW = 200 };

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Rises as the weight, from 0 to 1, falls: bits of positive floats are ordered as they are, and
 * those of 1 fit in 30 bits. */
static uint32_t sort_key(float weight)
{
    uint32_t bits, one = 0x3F800000u;
    memcpy(&bits, &weight, sizeof bits);
    return bits < one ? one - bits : 0;
}

/* Stable, so ids stay in order on ties; ends in `spare`, since the number of digits is odd. */
static void sort_by_radix(struct candidate *c, uint32_t n, struct candidate *spare)
{
    uint32_t start[DIGITS][BUCKETS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0, key = sort_key(c[i].weight); d < DIGITS; d++)
            start[d][key >> d * DIGIT_BITS & (BUCKETS - 1)]++;
    for (uint32_t d = 0; d < DIGITS; d++) {
        for (uint32_t b = 0, at = 0, count; b < BUCKETS; b++, at += count) {
            count = start[d][b];
            start[d][b] = at;
        }
        for (uint32_t i = 0; i < n; i++)
            spare[start[d][sort_key(c[i].weight) >> d * DIGIT_BITS & (BUCKETS - 1)]++] = c[i];
        struct candidate *sorted = spare;
        spare = c;
        c = sorted;
    }
}

static void sort_candidates(struct candidate *c, uint32_t n, struct candidate *spare)
{
    if (n <= FEW) {
        qsort(c, n, sizeof *c, compare_candidates);
        return;
    }
    sort_by_radix(c, n, spare);
    memcpy(c, spare, n * sizeof *c);
}

/* Everything at or above the threshold, in order of id; *mass = its sum. */
static uint32_t gather(const struct filter_row *row, float threshold, struct candidate *out,
                       double *mass)
{
    uint32_t count = 0;
    *mass = 0;
    for (uint32_t from = 0; from < row->n; from += SOFTMAX_BLOCK) {
        uint32_t to = row->n - from < SOFTMAX_BLOCK ? row->n : from + SOFTMAX_BLOCK;
        if (row->most[from / SOFTMAX_BLOCK] < threshold)
            continue;
        for (uint32_t i = from; i < to; i++) {
            out[count] = (struct candidate){(int32_t)i, row->weight[i]};
            count += row->weight[i] >= threshold;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        *mass += (double)out[i].weight;
    return count;
}

static double sum_first(const struct candidate *c, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)c[i].weight;
    return sum;
}

/* Smallest prefix whose mass reaches top_p of `mass`. */
static uint32_t cut_top_p(const struct candidate *c, uint32_t n, double top_p, double mass)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)c[i].weight;
        if (sum >= top_p * mass)
            return i + 1;
    }
    return n;
}

static uint32_t cut_min_p(const struct candidate *c, uint32_t n, double min_p)
{
    while (n > 1 && (double)c[n - 1].weight < min_p * (double)c[0].weight)
        n--;
    return n;
}

/* Whether the survivors are among `count` candidates of the sum `mass`, all above the threshold. */
static bool is_enough(const struct filter_row *row, const struct filter_limits *limits, uint32_t k,
                      float threshold, uint32_t count, double mass)
{
    /* With top_k the nucleus is taken of the k best: k candidates are then enough, and fewer would
     * be of another mass. */
    if (count == 0 || count >= k || (k < row->n && limits->top_p < 1))
        return count > 0 && count >= k;
    return (limits->top_p < 1 && mass >= limits->top_p * row->total) ||
           (double)threshold <= limits->min_p;
}

uint32_t filter_candidates(const struct filter_row *row, const struct filter_limits *limits,
                           struct candidate *out)
{
    uint32_t n = row->n;
    uint32_t k = limits->top_k && limits->top_k < n ? limits->top_k : n;
    float threshold = 1.0f / 16;
    double mass;
    uint32_t count = gather(row, threshold, out, &mass);
    while (!is_enough(row, limits, k, threshold, count, mass)) {
        threshold = threshold > 1e-36f ? threshold / 16 : 0;
        count = gather(row, threshold, out, &mass);
    }
    sort_candidates(out, count, row->spare);
    if (count > k)
        count = k;
    if (limits->top_p < 1)
        count = cut_top_p(out, count, limits->top_p, k < n ? sum_first(out, count) : row->total);
    return cut_min_p(out, count, limits->min_p);
}
