/* Two running means. A step with prompts is decodes plus so much a token; an error in how the two
 * share its time does not matter, as the sum is what is predicted. By how much predictions were
 * off lately is kept free below the target, as TCP does for its timeout (Jacobson and Karels,
 * "Congestion avoidance and control", 1988): half the steps would else be longer. One slow step
 * (another process, a page fault) counts for little, so that it does not starve the next prompts.
 */
#include "engine/sched/pace.h"

static const double WEIGHT = 0.25; /* of the newest step */
enum { FULL_WEIGHT_TOKENS = 32 };  /* fewer prompt tokens say less about the cost of one */

static double blend(double mean, double seen, double weight)
{
    if (mean <= 0)
        return seen;
    if (seen > 2 * mean)
        seen = 2 * mean;
    return mean + weight * (seen - mean);
}

static void observe_spread(struct pace *p, uint32_t n_prompt, double step)
{
    double off = step - p->decode_us - p->us_per_token * n_prompt, most = (double)p->target_us / 4;
    off = off < 0 ? -off : off;
    p->spread_us += WEIGHT * ((off < most ? off : most) - p->spread_us);
}

void pace_observe(struct pace *p, uint32_t n_decode, uint32_t n_prompt, uint64_t step_us)
{
    double step = (double)step_us;
    if (n_prompt == 0) {
        if (n_decode)
            p->decode_us = blend(p->decode_us, step, WEIGHT);
        return;
    }
    if (p->us_per_token > 0 && n_decode)
        observe_spread(p, n_prompt, step);
    double share = n_prompt < FULL_WEIGHT_TOKENS ? (double)n_prompt / FULL_WEIGHT_TOKENS : 1;
    double rest = n_decode ? step - p->decode_us : step;
    if (rest < step / 8) /* the mean of the decodes is out of date */
        rest = step / 8;
    p->us_per_token = blend(p->us_per_token, rest / n_prompt, WEIGHT * share);
}

uint32_t pace_prompt_tokens(const struct pace *p, uint32_t n_decode, uint32_t most)
{
    if (n_decode == 0 || p->target_us == 0)
        return most;
    double left = (double)p->target_us - p->spread_us - p->decode_us;
    if (left < p->decode_us / 2) /* decodes alone are slow: prompts still get a third of the step */
        left = p->decode_us / 2;
    double n = p->us_per_token > 0 ? left / p->us_per_token : 0;
    if (n < PACE_LEAST_TOKENS)
        n = PACE_LEAST_TOKENS;
    return n < most ? (uint32_t)n : most;
}
