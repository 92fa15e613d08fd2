/* controller/store/journal.h - events, the laws' states, and the chained decisions. */
#ifndef CONTROLLER_STORE_JOURNAL_H
#define CONTROLLER_STORE_JOURNAL_H

#include "controller/store/outputs.h"
#include "schemas/decision.h"

/* Everything a law is fed that is not a scored row. */
struct stored_event {
    uint64_t ord;
    struct str route, kind; /* kind as in controller/course.h */
    int64_t at_us;
    struct str actor, reason;
    struct str payload; /* JSON object text */
};

/* Gives ev the next place in the global order and inserts it. */
MUST_USE int store_add_event(struct store *s, struct stored_event *ev, struct err *e);
typedef int stored_event_fn(const struct stored_event *ev, void *ctx, struct err *e);
/* Events with ord > after, in order; texts are borrowed during the call. */
MUST_USE int store_walk_events(struct store *s, uint64_t after, stored_event_fn *fn, void *ctx,
                               struct err *e);

/* Place of the route's last event of kind "law"; 0 = none. */
MUST_USE int store_law_from(struct store *s, struct str route, uint64_t *out, struct err *e);

/* Counted rows and events with a place > after, in the one global order. */
MUST_USE int store_walk_order(struct store *s, uint64_t after, scored_row_fn *row_fn,
                              stored_event_fn *event_fn, void *ctx, struct err *e);

/* Numbers, chains and seals d, and inserts it. ord: the row or event that caused it. */
MUST_USE int store_add_decision(struct store *s, struct decision *d, uint64_t ord, struct err *e);
/* Last decision's number and hash; 0 and "" when there is none. */
MUST_USE int store_last_decision(struct store *s, uint64_t *number, char hash[65], struct err *e);
/* *json is borrowed during the call. */
typedef int stored_decision_fn(uint64_t number, uint64_t ord, struct str json, void *ctx,
                               struct err *e);
MUST_USE int store_walk_decisions(struct store *s, uint64_t after, stored_decision_fn *fn,
                                  void *ctx, struct err *e);

struct stored_state {
    struct str route;
    uint64_t ord; /* everything up to here was fed */
    struct str law, phase, experiment;
    uint64_t champion, challenger;
    double share;
    struct str settings, state; /* JSON texts */
    struct str rows_hash;       /* of everything up to ord; struct course */
};
MUST_USE int store_put_state(struct store *s, const struct stored_state *st, struct err *e);
/* Texts in the arena; ERR_NOT_FOUND for a new route. */
MUST_USE int store_get_state(struct store *s, struct str route, struct arena *a,
                             struct stored_state *out, struct err *e);

#endif
