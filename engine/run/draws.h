/* engine/run/draws.h - the tokens of a step's rows, drawn on the model's threads.
 *
 * A draw is a function of its row and request, so neither order nor thread changes it. Worker
 * thread only; nothing is allocated after open. */
#ifndef ENGINE_RUN_DRAWS_H
#define ENGINE_RUN_DRAWS_H

#include "engine/model/model.h"
#include "engine/sample/sampler.h"
#include "engine/sched/sequence.h"

struct draws;

struct draw {
    int rc; /* of sampler_draw, with its error */
    struct sample_result result;
    struct err error;
};

MUST_USE int draws_open(struct draws **out, struct model *m, uint32_t max_rows, struct err *e);
void draws_close(struct draws *d);
/* Row i of logits [n, n_vocab] is sequence[i]'s. The result, [n], is good until the next call. */
const struct draw *draws_make(struct draws *d, struct sequence *const *sequence, uint32_t n,
                              const float *logits);

#endif
