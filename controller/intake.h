/* controller/intake.h - frames from the verifiers into the ledger: decoded on any thread, applied
 * on the writer's. */
#ifndef CONTROLLER_INTAKE_H
#define CONTROLLER_INTAKE_H

#include "controller/ledger.h"

enum intake_kind {
    INTAKE_SCORE,     /* new */
    INTAKE_DUPLICATE, /* known before: nothing changed */
    INTAKE_FEEDBACK,
    INTAKE_REJECT, /* its key was readable, the rest not: kept, so that it is not sent for ever */
    INTAKE_GARBAGE /* not even a key: dropped */
};

struct intake_result { /* for counters; texts live until the next frame */
    enum intake_kind kind;
    bool is_late; /* below a mark that was moved past it */
    const struct score *score;
    const struct output *output; /* score and output: kind SCORE and DUPLICATE only */
    struct err why;              /* of a refusal */
};

/* One frame, decoded and sealed: made on any thread, applied on the writer's. Reused. */
struct intake_item {
    struct arena arena; /* of everything below */
    enum { ITEM_SCORE, ITEM_FEEDBACK, ITEM_REFUSED } kind;
    struct score score;
    struct output output; /* refused: its key; seq 0 = not even that */
    struct sealed_score sealed;
    struct feedback feedback;
    struct str frame; /* of a refused one */
    struct err why;
    size_t held_bytes; /* of the arena when it was decoded: the receiver's, whoever adds to it */
};
void intake_item_init(struct intake_item *x);
void intake_item_fini(struct intake_item *x);

/* Refusing is an outcome, not an error. A packer belongs to one thread: with PACK_WHEN_NEW, to the
 * writer's. */
void intake_decode(struct packer *p, struct str frame, enum packing when, struct intake_item *out);
/* Inside a batch. An error is the store's: abort the batch. */
MUST_USE int intake_apply(struct ledger *l, const struct intake_item *x, struct intake_result *out,
                          struct err *e);

/* Both in one, for one thread. */
struct intake;
struct intake *intake_new(struct ledger *l); /* NULL = no memory */
void intake_free(struct intake *in);
MUST_USE int intake_frame(struct intake *in, struct str frame, struct intake_result *out,
                          struct err *e);

#endif
