/* verifier/remote/workers.h - a pool of long-lived worker processes: one JSON line in, one out.
 *
 * A worker answers one question at a time. One that answers late, too much or not at all is killed
 * with its whole process group and started again, slower each time while it keeps dying. Limits are
 * the kernel's (rlimits). Loop thread only. */
#ifndef VERIFIER_REMOTE_WORKERS_H
#define VERIFIER_REMOTE_WORKERS_H

#include "common/clock.h"
#include "common/str.h"
#include "common/metrics.h"

#include <poll.h>

struct remote_job;
struct workers;

struct workers_config {
    const char *const
        *argv;           /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *folder;  /* working folder; NULL = / */
    int64_t count;       /* processes */
    int64_t memory_mib;  /* address space of each; 0 = no limit */
    int64_t max_answers; /* then it is replaced; 0 = never */
    size_t max_answer_bytes;
};

/* Texts are copied. Nothing is started yet. */
MUST_USE int workers_open(struct workers **out, const struct workers_config *c, struct err *e);
void workers_close(struct workers *w); /* kills them */
void workers_set_metrics(struct workers *w, struct metric *starts);
/* Gives the job to an idle worker; false: there is none now. */
bool workers_start(struct workers *w, struct remote_job *job, struct mono deadline,
                   struct mono now);
/* Reads, writes, kills, starts. Returns when to look again at the latest. */
struct mono workers_run(struct workers *w, struct mono now);
uint32_t workers_fds(const struct workers *w, struct pollfd *out, uint32_t max);
/* Ends running jobs with "shutdown". */
void workers_abandon(struct workers *w);

#endif
