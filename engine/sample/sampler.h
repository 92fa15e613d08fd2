/* engine/sample/sampler.h - one token from one row of logits.
 *
 * Order, as in vLLM and the OpenAI API: logit bias, penalties, temperature, top_k, top_p, min_p.
 * The draw is a function of (seed, position) and the row alone, so a request's tokens do not depend
 * on the batch. One owner (the worker thread); no allocation after open. */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "engine/generator.h"

struct sampler;

struct sample_spec {
    const struct params *params; /* every value set */
    uint64_t seed;
    uint64_t position;           /* how many tokens this request has generated */
    const struct gen_bias *bias; /* [n_bias] tokens below n_vocab; others are ignored */
    uint32_t n_bias;
    const int32_t *prompt, *output; /* for the penalties */
    uint32_t n_prompt, n_output;
    uint32_t n_top; /* alternatives wanted, <= GEN_MAX_TOP */
};

struct sample_result {
    int32_t token;
    float logprob; /* ln p(token) of the unmodified row at temperature 1 */
    uint32_t n_top;
    struct gen_top top[GEN_MAX_TOP]; /* of the unmodified row, best first, lower id on ties */
};

MUST_USE int sampler_open(struct sampler **out, uint32_t n_vocab, struct err *e);
void sampler_close(struct sampler *s);
/* logits: [n_vocab]. ERR_DEVICE when the row holds NaN or +infinity or nothing finite. */
MUST_USE int sampler_draw(struct sampler *s, const float *logits, const struct sample_spec *spec,
                          struct sample_result *out, struct err *e);

/* What a device needs to draw as sampler_draw does (kernels/draw.h). */

/* Counter-based, of [0, 1): the same (seed, position) gives the same number whatever was drawn
 * before. It decides the draw. */
double sampler_uniform(uint64_t seed, uint64_t position);
/* 1 / temperature; 0: greedy. */
float sampler_scale(const struct params *p);
/* Clients write "all" as 0 or -1; 0: all. */
uint32_t sampler_top_k(const struct params *p);
bool sampler_has_penalties(const struct params *p);
/* What sampler_draw says of a row that is not finite. */
MUST_USE int sampler_refuse(struct err *e);

#endif
