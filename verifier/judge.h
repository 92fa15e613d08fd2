/* verifier/judge.h - one received frame to the one message that answers it. No I/O, no state.
 *
 * Every frame whose key can be read is answered, so that the controller's sequence has no gap: a
 * broken output as an unscored score "malformed", an unknown route as "unknown_route". */
#ifndef VERIFIER_JUDGE_H
#define VERIFIER_JUDGE_H

#include "verifier/check_set.h"

enum judged {
    JUDGED_SCORE,     /* *out holds a score; see *score */
    JUDGED_FEEDBACK,  /* *out holds the frame as it came */
    JUDGED_MALFORMED, /* *out holds an unscored score */
    JUDGED_DROPPED    /* nothing to send: not even a key; err says why */
};

struct judge {
    struct str verifier; /* id */
    struct check_set *const *set;
    uint32_t n_set;
    const struct clock *clock; /* see check_set.h */
};

/* One frame on its way. The caller sets the first group, keeps it until judge_end and leaves it
 * where it is (an arena is a good place). */
struct judging {
    const struct judge *judge;
    struct str frame;
    struct arena *arena;   /* scratch of this frame, holds what score points at */
    struct remote *remote; /* see check_set.h */
    const char *refusal, *skip;
    uint32_t slice_us;
    void (*on_ready)(void *ctx);
    void *ctx;

    struct score score; /* a result */
    enum judged judged; /* own from here */
    struct err error;
    struct output output;
    struct check_run run;
    bool is_running;
};
/* Decodes, runs what is local, asks what is remote. True: judge_end may follow at once. False: only
 * after on_ready (loop's thread). Any number of threads at once. */
MUST_USE bool judge_begin(struct judging *g);
/* After a begin that said true: its slice is used up, judge_resume has to come before judge_end. */
bool judge_is_heavy(const struct judging *g);
MUST_USE bool judge_resume(struct judging *g); /* as begin, on any thread, without a slice */
/* Composes and encodes into *out. */
enum judged judge_end(struct judging *g, struct buf *out, struct err *e);

/* Both, without what is remote. Any number of threads at once. */
enum judged judge_frame(const struct judge *j, struct str frame, struct arena *a,
                        struct score *score, struct buf *out, struct err *e);

#endif
