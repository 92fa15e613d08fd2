/* controller/stats/blocks.c - first come, first paired.
 *
 * Invariant: after every push no stratum could form a block (n_small == 0 or n_large < k), except
 * right after k became smaller. Any thread; the caller owns the struct. */
#include "controller/stats/blocks.h"

#include <math.h>
#include <string.h>

uint32_t blocks_k(double challenger_share, uint32_t k_max)
{
    double small = fmin(challenger_share, 1.0 - challenger_share);
    double most = k_max < BLOCKS_MAX_K ? k_max : BLOCKS_MAX_K;
    double ratio = small > 0.0 ? floor((1.0 - small) / small + 1e-9) : most;
    return (uint32_t)fmax(1.0, fmin(ratio, most));
}

void blocks_set_share(struct blocks *b, double challenger_share, uint32_t k_max)
{
    uint32_t is_small = challenger_share <= 0.5;
    if (is_small != b->is_challenger_small)
        for (int i = 0; i < BLOCKS_STRATA; i++) {
            b->n_dropped += b->stratum[i].n_small + b->stratum[i].n_large;
            b->stratum[i].n_small = 0;
            b->stratum[i].n_large = 0;
        }
    b->is_challenger_small = is_small;
    b->k = blocks_k(challenger_share, k_max);
}

static void drop_front(struct block_value *queue, uint32_t *n, uint32_t count)
{
    *n -= count;
    memmove(queue, queue + count, *n * sizeof *queue);
}

static void append(struct blocks *b, struct block_value *queue, uint32_t *n,
                   const struct block_value *value)
{
    if (*n == BLOCKS_WAITING) {
        drop_front(queue, n, 1);
        b->n_dropped++;
    }
    queue[(*n)++] = *value;
}

/* Pairs the oldest row of the smaller arm with the k oldest waiting of the larger. */
static void form(struct blocks *b, struct block_stratum *s, struct block *out)
{
    struct block_value mean;
    for (int j = 0; j < BLOCKS_VALUES; j++) {
        double sum = 0.0;
        for (uint32_t i = 0; i < b->k; i++)
            sum += s->large[i].v[j];
        mean.v[j] = sum / b->k;
    }
    out->challenger = b->is_challenger_small ? s->small[0] : mean;
    out->control = b->is_challenger_small ? mean : s->small[0];
    for (int j = 0; j < BLOCKS_VALUES; j++)
        out->diff.v[j] = out->challenger.v[j] - out->control.v[j];
    drop_front(s->small, &s->n_small, 1);
    drop_front(s->large, &s->n_large, b->k);
    b->n_blocks++;
}

bool blocks_push(struct blocks *b, uint32_t stratum, bool is_challenger,
                 const struct block_value *value, struct block *out)
{
    struct block_stratum *s = &b->stratum[stratum < BLOCKS_STRATA ? stratum : BLOCKS_STRATA - 1];
    if (is_challenger == (b->is_challenger_small != 0))
        append(b, s->small, &s->n_small, value);
    else
        append(b, s->large, &s->n_large, value);
    if (s->n_small == 0 || s->n_large < b->k)
        return false;
    form(b, s, out);
    return true;
}
