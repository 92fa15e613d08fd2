/* engine/sample/filters.h - top_k, top_p and min_p without sorting the vocabulary.
 *
 * Candidates are gathered above a falling threshold until they hold the k-th largest and the mass
 * top_p; only they are sorted. Exact for every input. */
#ifndef ENGINE_SAMPLE_FILTERS_H
#define ENGINE_SAMPLE_FILTERS_H

#include <stdint.h>

struct candidate {
    int32_t token;
    float weight; /* not normalised; the largest of a row is 1 */
};

struct filter_limits {
    uint32_t top_k; /* 0 = off */
    double top_p;   /* 1 = off */
    double min_p;   /* 0 = off */
};

struct filter_row {
    const float *weight; /* [n], exp((logit - max) / T) */
    const float *most;   /* [softmax_blocks(n)] largest of each block */
    uint32_t n;
    double total;            /* of all weights */
    struct candidate *spare; /* [n] scratch */
};

/* Fills out [n] with what survives, best first, lower id first on ties; returns their number, at
 * least 1. */
uint32_t filter_candidates(const struct filter_row *row, const struct filter_limits *limits,
                           struct candidate *out);

#endif
