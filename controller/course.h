/* controller/course.h - one route's law, fed from the journal; gives the decisions it causes.
 *
 * Rows and events come in the global order, from the running loop, at the reload after a restart,
 * or from replay: the same functions, the same numbers, the same decisions. Pure but for the
 * look-up of revisions. A decision here has no number and no hash yet: the store chains it.
 *
 * Kinds of events: settings (payload: policy settings), champion {"revision","why"}, start
 * {"revision","experiment","is_now","takes_non_inferior","is_own","is_revert"}, stop, promote,
 * rollback, hold, resume, crash, tick, law {"version"} (another version of the laws: what it is fed
 * begins here), experiment {"id","revisions":[champion,...], a plan's keys},
 * experiment_stop. One thread. */
#ifndef CONTROLLER_COURSE_H
#define CONTROLLER_COURSE_H

#include "controller/policy.h"
#include "controller/store/journal.h"
#include "schemas/codec.h"
#include "schemas/revision.h"

/* Grows with every change after which some rows would be decided otherwise, or a state be another
 * one: what is in a database is then told apart by the version that made it (law_version.h).
 * tests/e2e/test_upgrade.py fails where it should have grown. */
enum { COURSE_LAW_VERSION = 2 };
enum { COURSE_MAX_DECISIONS = POLICY_ACTIONS_MAX + 1 };

typedef int course_revision_fn(void *ctx, uint64_t number, struct policy_revision *out,
                               struct err *e);

struct course {
    char route[CODEC_MAX_NAME + 1];
    struct policy *policy; /* NULL before the first settings event */
    uint64_t ord;          /* everything up to here was fed */
    uint64_t law_from; /* what is before is another version's: hashed, not fed; 0 = all is fed */
    /* SHA-256 chain over all of it, this route's rows and events; decisions carry it, so that they
     * vouch for what came before them. */
    char rows_hash[65];
    course_revision_fn *revision_of;
    void *revision_ctx;
};

struct course_result { /* of one row or event */
    struct policy_actions actions;
    struct decision decision[COURSE_MAX_DECISIONS];
    /* The action behind decision[i]; NULL for what the event itself says (champion, resume). */
    const struct policy_action *action[COURSE_MAX_DECISIONS];
    uint32_t n;
};

void course_init(struct course *c, struct str route, course_revision_fn *fn, void *ctx);
void course_close(struct course *c);

/* Texts of the decisions live in the arena or in the result. A row at or below c->ord is skipped.
 * ERR_CONFLICT: the law refuses the event now; nothing changed. */
MUST_USE int course_feed_row(struct course *c, const struct scored_row *row, struct arena *a,
                             struct course_result *out, struct err *e);
MUST_USE int course_feed_event(struct course *c, const struct stored_event *ev, struct arena *a,
                               struct course_result *out, struct err *e);

/* State to and from the store's texts. */
MUST_USE int course_save(const struct course *c, struct arena *a, struct stored_state *out,
                         struct err *e);
MUST_USE int course_load(struct course *c, const struct stored_state *st, struct err *e);

/* A revision as the laws see it: every knob resolved. */
struct policy_revision course_revision(const struct revision *r);

#endif
