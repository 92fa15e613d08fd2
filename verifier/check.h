/* verifier/check.h - what a check is. One file in checks/ exports one const struct check_ops and
 * has one line in registry.c.
 *
 * A check is opened once from its parameters and then run on many outputs, from several threads at
 * once: its state does not change after open. Outputs are hostile: run must be linear in the
 * output, or stop at a fixed amount of work and say "inconclusive". A verdict of unscored is a
 * third outcome, never a zero.
 *
 * A remote kind (a service, worker processes) has lane, ask and read in place of run: two pure
 * functions around a question that remote/ asks on its own thread. It never waits itself. */
#ifndef VERIFIER_CHECK_H
#define VERIFIER_CHECK_H

#include "schemas/score.h"
#include "verifier/options.h"

/* Parsers (regular expressions, JSON, Unicode forms) look at no more text than this. */
enum { CHECK_TEXT_MAX_BYTES = 1 << 20 };

struct remote_lane;

struct check_item {
    const struct output *output; /* text, token ids, finish reason, timings */
    const json_t *metadata;      /* the client's object, NULL when there is none */
    struct arena *arena;         /* lives until this output is done; scratch memory */
    uint64_t cpu_deadline_us;    /* of check_cpu_us(): see check_is_late */
};

struct check_verdict {
    enum score_outcome outcome;
    double value;       /* [0,1]; 1 for pass, 0 for fail */
    double measure;     /* what was measured (length, share of repeats); 0 when nothing is */
    const char *reason; /* literal; why it failed or is unscored, "" when there is no more to say */
};

struct check_ops {
    const char *kind;
    uint32_t code_version;       /* raised when a verdict may change: part of the set's version */
    const char *summary;         /* one sentence for people */
    const struct option *option; /* every parameter the kind knows */
    size_t n_option;
    /* params is an object and stays valid until close. ERR_INVALID: where, found, allowed. */
    int (*open)(void **state, const struct json_at *params, struct err *e);
    struct check_verdict (*run)(const void *state, const struct check_item *item);
    void (*close)(void *state);
    /* Remote kinds; run is NULL. Any thread. */
    struct remote_lane *(*lane)(const void *state);
    /* The question, in the item's arena. False: nothing to ask, *v says why. */
    bool (*ask)(const void *state, const struct check_item *item, struct str *question,
                struct check_verdict *v);
    /* *is_broken: that is no answer at all, a failure of the service (its circuit breaker). */
    struct check_verdict (*read)(const void *state, const struct check_item *item,
                                 struct str answer, bool *is_broken);
    /* What outside its parameters decides its verdicts (a program's content), for the version of
     * the set. NULL = nothing. */
    const char *(*content)(const void *state);
};

/* registry.c */
extern const struct check_ops *const CHECK_KINDS[];
extern const size_t CHECK_KINDS_N;
const struct check_ops *check_find(struct str kind); /* NULL: not known here */
void check_kinds_text(struct buf *out);              /* "length, finish_reason, ..." */

/* Verdicts. Reasons are literals. */
struct check_verdict check_pass_if(bool passed, const char *reason_of_failure);
struct check_verdict check_share(double value, const char *reason_below_one); /* clamped to [0,1] */
struct check_verdict check_unscored(const char *reason);

/* CPU time of the calling thread: the machine being busy must not turn into timeouts. */
uint64_t check_cpu_us(void);
bool check_is_late(const struct check_item *item);

/* Takes v over; false and *verdict when memory is out. */
bool check_question(json_t *v, struct arena *a, struct str *question,
                    struct check_verdict *verdict);

/* The field of the metadata, NULL when absent or null. Borrowed. */
const json_t *check_metadata(const struct check_item *item, const char *key);

#endif
