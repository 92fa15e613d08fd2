/* controller/desired.h - the document that engines reconcile to.
 *
 * A full document, never a delta or a flag (LESSONS 30-32). Its version grows with every change of
 * content, across restarts of the controller. Pure. */
#ifndef CONTROLLER_DESIRED_H
#define CONTROLLER_DESIRED_H

#include "controller/policy.h"
#include "schemas/control.h"

struct desired_source { /* one route; texts and revisions are borrowed */
    struct str route, salt;
    const struct policy_view *view;
    const struct revision *champion;
    const struct revision *challenger; /* NULL = none */
    const struct revision *arm;        /* [view->n_arm] of a running experiment, else NULL */
};

/* ERR_INVALID: more routes than a document may hold. Routes in the arena. */
MUST_USE int desired_build(const struct desired_source *source, uint32_t n, uint64_t version,
                           struct arena *a, struct desired *out, struct err *e);
/* Digest of everything but the version. */
MUST_USE int desired_hash(const struct desired *d, char out[65], struct err *e);

#endif
