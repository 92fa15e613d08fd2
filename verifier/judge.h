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
};

/* Arena: scratch for this frame, holds what *score points at. Any number of threads at once. */
enum judged judge_frame(const struct judge *j, struct str frame, struct arena *a,
                        struct score *score, struct buf *out, struct err *e);

#endif
