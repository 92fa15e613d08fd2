/* verifier/check_set.h - the checks of one route, opened, with the version their content gives.
 *
 * A check's parameters may hold "when": {"kind": "json"} or {"kind": ["json", "list"]}: it then
 * applies only to outputs whose metadata has such a value, and is left out of the others' scores.
 */
#ifndef VERIFIER_CHECK_SET_H
#define VERIFIER_CHECK_SET_H

#include "common/clock.h"
#include "schemas/config.h"
#include "verifier/check.h"
#include "verifier/remote/remote.h"

struct check_set;

/* ERR_INVALID names route, check and key, what was found and what is allowed. */
MUST_USE int check_set_open(struct check_set **out, const struct route_config *route,
                            struct err *e);
void check_set_close(struct check_set *set);
const char *check_set_version(const struct check_set *set); /* SHA-256 of content and code */
struct str check_set_name(const struct check_set *set);
size_t check_set_count(const struct check_set *set);

/* Makes the set's services known to the loop; before the first run with it. */
MUST_USE int check_set_attach(const struct check_set *set, struct remote *remote, struct err *e);

/* One output on its way through a set. The caller sets the first group and keeps all of it, the
 * arena too, until check_set_end. */
struct check_run {
    const struct check_set *set;
    const struct output *output;
    struct arena *arena;
    struct score *score;
    const struct clock *clock;   /* for how long a check took; the real one beside `remote` */
    struct remote *remote;       /* NULL: remote checks are unscored with the reason `refusal` */
    const char *refusal;         /* a literal */
    const char *skip;            /* set: no check runs, this literal is the reason */
    uint32_t slice_us;           /* 0, or the CPU time after which begin stops between checks */
    void (*on_ready)(void *ctx); /* from the loop's thread, once, when begin said false */
    void *ctx;

    bool is_heavy; /* a result: it stopped there; check_set_resume goes on */

    struct check_item item; /* the run's own from here */
    json_t *metadata;
    struct mono start;
    uint64_t cpu_used_us;
    uint32_t next; /* check */
    bool is_skipped;
    _Atomic uint32_t n_open;
};
/* Runs what is local, asks what is remote; no waiting. True: check_set_end may follow at once.
 * False: only after on_ready. Any number of threads at once. */
MUST_USE bool check_set_begin(struct check_run *run);
/* The rest of a run that is heavy, on any thread, to its end; the answer as of begin. The verdicts
 * are those of a run without a slice. */
MUST_USE bool check_set_resume(struct check_run *run);
/* Composes. Fills check_set, version, engine, request_id, epoch, seq, choice, checks, reward and
 * duration of *score; texts are borrowed from set, output and arena. */
void check_set_end(struct check_run *run);
/* Both, without what is remote. */
void check_set_run(const struct check_set *set, const struct output *output, struct arena *arena,
                   struct score *score);

#endif
