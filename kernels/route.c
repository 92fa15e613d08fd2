/* The softmax is in double, over all experts, as float32 sums of hundreds would decide near ties.
 */
#include "kernels/route.h"

#include <math.h>

static double above_lowest(float score)
{
    return isnan(score) ? -INFINITY : (double)score;
}

static bool is_chosen(const uint32_t *expert, uint32_t n, uint32_t i)
{
    for (uint32_t k = 0; k < n; k++)
        if (expert[k] == i)
            return true;
    return false;
}

static void choose(const struct kern_mix_shape *s, const float *score, uint32_t *expert)
{
    for (uint32_t k = 0; k < s->n_used; k++) {
        uint32_t best = s->n_expert;
        for (uint32_t i = 0; i < s->n_expert; i++)
            if (!is_chosen(expert, k, i) &&
                (best == s->n_expert || above_lowest(score[i]) > above_lowest(score[best])))
                best = i;
        expert[k] = best;
    }
}

static void sort(uint32_t *expert, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && expert[k - 1] > expert[k]; k--) {
            uint32_t other = expert[k];
            expert[k] = expert[k - 1];
            expert[k - 1] = other;
        }
}

void route_token(const struct kern_mix_shape *s, const float *score, uint32_t *expert,
                 float *weight)
{
    double most = -INFINITY, sum = 0, chosen = 0;
    for (uint32_t i = 0; i < s->n_expert; i++)
        most = fmax(most, above_lowest(score[i]));
    for (uint32_t i = 0; i < s->n_expert; i++)
        sum += exp(above_lowest(score[i]) - most);
    choose(s, score, expert);
    sort(expert, s->n_used);
    for (uint32_t k = 0; k < s->n_used; k++)
        chosen += exp(above_lowest(score[expert[k]]) - most);
    for (uint32_t k = 0; k < s->n_used; k++)
        weight[k] =
            (float)(exp(above_lowest(score[expert[k]]) - most) / (s->is_normed ? chosen : sum));
}
