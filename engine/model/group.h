/* engine/model/group.h - what a model does together with its other ranks (kernels/comm).
 *
 * Rank 0 is driven by the engine; before each step it sends the batch, and the others compute the
 * same step on their shares. Activations meet in the devices' memory where the backend can (ops.h,
 * join), and are summed; else in the host's, where columns are put side by side. Every function
 * does nothing, or the plain thing, for a model that is alone. A group that ended stays so:
 * ERR_DEVICE from group_error. */
#ifndef ENGINE_MODEL_GROUP_H
#define ENGINE_MODEL_GROUP_H

#include "engine/model/arch.h"

struct group;

/* What ranks have some columns of: what attention gives, hidden values of the feed-forward layer
 * (of each expert that a token uses), the width of the model, logits. */
enum group_width { GROUP_HEADS, GROUP_HIDDEN, GROUP_MODEL, GROUP_VOCAB, GROUP_WIDTHS };

/* width: how many this rank has. */
MUST_USE int group_open(struct model *m, const size_t width[GROUP_WIDTHS], struct err *e);
/* Tells the others that there is nothing more. */
void group_close(struct model *m);
/* All ranks have loaded; gives the error of one that could not. */
MUST_USE int group_ready(struct model *m, struct err *e);
/* Why this rank cannot go on. */
void group_abort(struct model *m, const struct err *e);

bool group_is_first(const struct model *m);
MUST_USE int group_error(const struct model *m, struct err *e);
uint64_t group_comm_us(const struct model *m);

/* Rows of the vocabulary on each rank; NULL: alone. */
const size_t *group_widths(const struct model *m);

/* Rank 0. With m->is_drawn. */
void group_send(struct model *m, const struct model_batch *b);
/* The others: whether there is a next batch, or the group is over; waits a moment for it. */
bool group_is_called(struct model *m);
/* The others: the next batch and m->is_drawn, until the next call. ERR_CANCELLED: there is nothing
 * more. */
MUST_USE int group_receive(struct model *m, struct model_batch *out, struct err *e);

/* Inside a step, between ops. */
void group_share(struct model *m, struct kern_buffer *x); /* rank 0's to all */
void group_sum(struct model *m, const struct kern_buffer *from, struct kern_buffer *to);
/* Through the host: to gets the columns of all ranks' `from`, in the order of the ranks. */
void group_collect(struct model *m, enum group_width what, const struct kern_buffer *from,
                   struct kern_buffer *to);
/* Where this rank's part of the logits goes, and then all parts to rank 0's `logits`. */
float *group_logits(struct model *m, float *logits);
void group_gather(struct model *m, uint32_t n_row, float *logits);
/* After a step: its collectives on the device count as communication. */
void group_count(struct model *m);

#endif
