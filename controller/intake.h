/* controller/intake.h - frames from the verifiers into the ledger. Writer thread. */
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

struct intake;
struct intake *intake_new(struct ledger *l); /* NULL = no memory */
void intake_free(struct intake *in);
/* Inside a batch. An error is the store's: abort the batch. Refused frames are not errors. */
MUST_USE int intake_frame(struct intake *in, struct str frame, struct intake_result *out,
                          struct err *e);

#endif
