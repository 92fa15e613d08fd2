/* controller/ledger.h - the one place where things are written: rows, events, decisions, states.
 *
 * A batch is: ledger_begin, any number of scores, feedback and events, ledger_commit. Everything a
 * row causes (decisions, revisions, commit marks, the desired version) is in the transaction of the
 * row, so a kill at any moment leaves what replay agrees with. A law's state is stored with each of
 * its decisions and twice a second; rows say the rest. Only after ledger_commit may the
 * outside be told. After an error: ledger_abort, which goes back to what is committed. One thread
 * (the writer). */
#ifndef CONTROLLER_LEDGER_H
#define CONTROLLER_LEDGER_H

#include "common/clock.h"
#include "common/rng.h"
#include "controller/course.h"
#include "controller/desired.h"
#include "controller/policies/era.h"
#include "controller/stats/confseq.h"
#include "controller/store/marks.h"
#include "controller/store/revisions.h"
#include "controller/store/rollups.h"
#include "controller/tracker.h"

struct tally { /* of one arm, for people: the law keeps its own */
    uint64_t revision;
    struct confseq_eb reward;
    uint64_t n_unscored;
    struct era era; /* of the checks: as in the laws, two versions are not averaged */
};

struct ledger_route {
    const struct route_config *config;
    struct course course;
    char salt[17];
    struct tally arm[2]; /* champion, challenger */
    int64_t ticked_us;
    uint64_t trial;         /* on trial in the desired document (ledger_crash.c), 0 = nothing ... */
    uint64_t trial_version; /* ... since this version of it */
    bool is_dirty;          /* in this batch */
    bool is_unsaved;        /* the stored state is older than the last row or event ... */
    bool must_save;         /* ... and the next commit stores it, else SAVE_EVERY_US after ... */
    int64_t saved_us;       /* ... this, 0 = not by this process */
    bool is_held_by_switch; /* controller/kill_switch.h */
    bool is_anew;           /* controller/law_version.h */
};

/* Whether the stored laws' states are what this version makes of the rows: yes, yes once they are
 * made again, no. */
enum law_fit { LAW_FITS, LAW_AGAIN, LAW_OTHER };

struct kill_switch {
    bool is_on;
    int64_t since_us;
    char actor[256], reason[1024];
};

struct stored_notice; /* controller/store/notices.h */

struct ledger_hooks { /* what was recorded, for metrics and logs; may be NULL. Writer thread */
    void (*decision)(void *ctx, const struct decision *d);
    void (*gap)(void *ctx, struct str engine, uint64_t n);
    void (*notice)(void *ctx, const struct stored_notice *n); /* after an attempt, or given up */
    void *ctx;
};

struct ledger_options {
    const char *database;
    const struct milepost_config *config; /* stays valid */
    struct clock clock;
    uint64_t seed;              /* of salts, experiments and ids: rng_entropy() where it serves */
    const struct db_stop *stop; /* ends ledger_open with ERR_CANCELLED; NULL = nothing does */
    struct ledger_hooks hooks;
};

struct ledger {
    struct ledger_options o;
    struct store *store;
    struct ledger_route *route; /* [n_route], in the configuration's order */
    uint32_t n_route;
    struct tracker *tracker;
    uint64_t n_outputs, n_scores, n_unscored, n_feedback, n_decisions; /* in the database */
    uint64_t desired_version;
    char desired_hash[65];
    struct kill_switch kill_switch;
    enum law_fit law_fit; /* until the first batch */
    char law_difference[402];
    struct mono committed; /* the last batch */
    struct rng rng;
    /* the running batch */
    bool is_open;
    int64_t now_us; /* never goes back, see ledger_now_us */
    struct mono now_at;
    bool has_decisions;
    bool is_closing;              /* ledger_save */
    uint64_t first_decision;      /* that this batch would make */
    bool has_notices, has_asked;  /* for webhooks, for the exporter; reset by whoever is told */
    struct arena arena;           /* reset at ledger_begin */
    struct course_result *result; /* of the event being fed */
    struct pending_proposal {
        uint32_t route;
        uint64_t from_revision;
        uint64_t winner;     /* of an experiment: this revision, not a new one; 0 = none */
        uint64_t reverts_to; /* the previous champion against the present one; 0 = no revert */
        enum param_id knob;
        double value;
        char reason[POLICY_REASON_BYTES];
    } pending[8];
    uint32_t n_pending;
    struct rollups rollups;
};

/* Opens the store, restores every law, makes first revisions, brings settings up to date. */
MUST_USE int ledger_open(struct ledger **out, const struct ledger_options *o, struct err *e);
/* An orderly end: the laws' states as of the last row. Without it they are made again from the rows
 * since the last one stored. ledger_close alone leaves the database as a kill would. */
MUST_USE int ledger_save(struct ledger *l, struct err *e);
void ledger_close(struct ledger *l);

MUST_USE int ledger_begin(struct ledger *l, struct err *e); /* nothing when a batch is open */
MUST_USE int ledger_commit(struct ledger *l, struct err *e);
/* Rolls back and restores the laws from what is committed. An error here ends the process. */
MUST_USE int ledger_abort(struct ledger *l, struct err *e);

MUST_USE int ledger_score(struct ledger *l, const struct sealed_score *x, struct put_result *out,
                          struct err *e);
MUST_USE int ledger_feedback(struct ledger *l, const struct feedback *f, bool *is_new,
                             struct err *e);
MUST_USE int ledger_reject(struct ledger *l, const struct output *key, struct str raw,
                           const char *reason, bool *is_new, struct err *e);
/* What an engine says it still holds; closes holes that will not be filled. */
MUST_USE int ledger_note_oldest(struct ledger *l, struct str engine, uint64_t epoch,
                                uint64_t oldest, uint64_t dropped, struct err *e);

/* An engine died; applied: the desired version it served. Every canary in that document trips. */
MUST_USE int ledger_note_crash(struct ledger *l, struct str engine, uint64_t applied,
                               struct err *e);

/* The time rows and events get: the wall clock; where that was set back (also while the controller
 * was away), on from the last time written, so that deadlines still pass. */
int64_t ledger_now_us(const struct ledger *l);

struct ledger_event {
    struct ledger_route *route;
    const char *kind; /* controller/course.h */
    struct str actor, reason;
    struct str payload; /* JSON object text; empty = {} */
};
/* ERR_CONFLICT: the law refuses it now; nothing was written. *decision (may be NULL): number of the
 * first decision it caused, 0 = none. */
MUST_USE int ledger_event(struct ledger *l, const struct ledger_event *ev, uint64_t *decision,
                          struct err *e);
/* Feeds time to the laws that wait for it. */
MUST_USE int ledger_ticks(struct ledger *l, struct err *e);
/* Wall time at which ledger_ticks has work; 0 = never. */
int64_t ledger_wake_us(const struct ledger *l);

/* One small step of retention, when one is due; *again: there is more to drop at once. Inside a
 * batch of its own. */
MUST_USE int ledger_expire(struct ledger *l, bool *again, struct err *e);

struct ledger_route *ledger_route_of(struct ledger *l, struct str name); /* "" = the first */
/* The document in force; texts in the arena. */
MUST_USE int ledger_desired(struct ledger *l, struct arena *a, struct desired *out, struct err *e);

#endif
