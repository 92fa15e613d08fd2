/* engine/sched/pace.h - how many prompt tokens a step may hold so that running streams do not wait.
 *
 * Learns from every step what decodes take, what a prompt token adds and how far off that was, and
 * allows what fits into the wanted step time. No clock: durations are passed in. O(1). */
#ifndef ENGINE_SCHED_PACE_H
#define ENGINE_SCHED_PACE_H

#include <stdint.h>

struct pace {
    uint64_t target_us;  /* longest wanted step while streams run; 0 = no limit */
    double decode_us;    /* of a step's decodes alone, lately */
    double us_per_token; /* what a prompt token adds, lately; 0 = not known yet */
    double spread_us;    /* how far steps with both were from what was expected, lately */
};

/* A step of n_decode decodes and n_prompt prompt tokens took step_us. */
void pace_observe(struct pace *p, uint32_t n_decode, uint32_t n_prompt, uint64_t step_us);
/* Prompt tokens for a step with n_decode decodes: `most` when nobody is decoding or there is no
 * target, at least PACE_LEAST_TOKENS and half the time of the decodes, so that prompts always get
 * on. */
uint32_t pace_prompt_tokens(const struct pace *p, uint32_t n_decode, uint32_t most);

enum { PACE_LEAST_TOKENS = 16 };

#endif
