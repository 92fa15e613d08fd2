/* engine/run/draws.h - the tokens of a step's rows, drawn on the model's device where it can, else
 * on its threads from the logits.
 *
 * A draw is a function of its row and request, so neither order nor place changes it. Worker
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
/* Begins a step of the model and a draw for each row: row i is sequence[i]'s; several in a row are
 * its next ones, after drafted tokens (not where the model draws). *is_on_device: all of
 * them are drawn there, and the next step may begin, and name its rows, before this one has ended.
 * Errors: as model_start. */
MUST_USE int draws_start(struct draws *d, const struct model_batch *batch,
                         struct sequence *const *sequence, bool *is_on_device, struct err *e);
/* Ends the oldest step begun. sequence[i]: NULL where nobody wants row i any more. *draw, [n_row],
 * is good until the next call. */
MUST_USE int draws_finish(struct draws *d, uint32_t n_row, struct sequence *const *sequence,
                          const struct draw **draw, struct err *e);
/* Rows drawn on the device so far, and on the host. */
void draws_counts(const struct draws *d, uint64_t *on_device, uint64_t *on_host);

#endif
