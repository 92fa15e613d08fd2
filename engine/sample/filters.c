/* The threshold falls by a factor of 16 a round from the largest weight, so a peaked distribution
 * (the usual case) ends after one or two cheap passes and a sort of a few dozen. */
#include "engine/sample/filters.h"

#include <stdbool.h>
#include <stdlib.h>

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Everything at or above the threshold, in order of id; *mass = its sum. */
static uint32_t gather(const float *weight, uint32_t n, float threshold, struct candidate *out,
                       double *mass)
{
    uint32_t count = 0;
    *mass = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (weight[i] >= threshold) {
            out[count++] = (struct candidate){(int32_t)i, weight[i]};
            *mass += (double)weight[i];
        }
    }
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

uint32_t filter_candidates(const float *weight, uint32_t n, double total,
                           const struct filter_limits *limits, struct candidate *out)
{
    uint32_t k = limits->top_k && limits->top_k < n ? limits->top_k : n;
    float threshold = 1.0f / 16;
    uint32_t count;
    double mass;
    for (;;) {
        count = gather(weight, n, threshold, out, &mass);
        /* With top_k the nucleus is taken of the k best: k candidates are then enough. */
        bool enough = count >= k ||
                      (k == n && limits->top_p < 1 && mass >= limits->top_p * total) ||
                      (double)threshold <= limits->min_p || count == n;
        if (enough && count > 0)
            break;
        threshold = threshold > 1e-36f ? threshold / 16 : 0;
    }
    qsort(out, count, sizeof *out, compare_candidates);
    if (count > k)
        count = k;
    if (limits->top_p < 1)
        count = cut_top_p(out, count, limits->top_p, k < n ? sum_first(out, count) : total);
    return cut_min_p(out, count, limits->min_p);
}
