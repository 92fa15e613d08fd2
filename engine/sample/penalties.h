/* engine/sample/penalties.h - logit bias and the three penalties, in place on a row of logits.
 *
 * repetition: multiplicative over prompt and output (CTRL, https://arxiv.org/abs/1909.05858, the
 * form of Hugging Face: positive logits are divided, negative multiplied). frequency and presence:
 * subtracted by count and once, over the output only, as the OpenAI API defines them. */
#ifndef ENGINE_SAMPLE_PENALTIES_H
#define ENGINE_SAMPLE_PENALTIES_H

#include "engine/sample/sampler.h"

/* False when spec changes nothing, so the row need not be copied. */
bool penalties_needed(const struct sample_spec *spec);
/* counts: [n_vocab] zeros on entry and on return (scratch). */
void penalties_apply(const struct sample_spec *spec, float *logits, uint32_t n_vocab,
                     uint32_t *counts);

#endif
