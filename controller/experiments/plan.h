/* controller/experiments/plan.h - what an operator asks of an experiment, checked once.
 *
 * The plan is stored with the event that starts the experiment, so that replay uses the same one.
 * Pure. */
#ifndef CONTROLLER_EXPERIMENTS_PLAN_H
#define CONTROLLER_EXPERIMENTS_PLAN_H

#include "controller/policy.h"

/* Arms of one route: as many as the desired document carries (schemas/control.h). */
enum { EXPERIMENT_ARMS = 16, EXPERIMENT_PAIRS = EXPERIMENT_ARMS * (EXPERIMENT_ARMS - 1) / 2 };

enum experiment_law {
    LAW_ELIMINATION, /* equal shares; an arm that another beats is dropped (CONTROL.md 2.6) */
    LAW_TOP_TWO,     /* shares follow top-two Thompson sampling, never below the floor */
    LAW_SLICES,      /* one arm at a time, in blocks of time of random order: scheduler knobs */
    LAW_COUNT
};

enum experiment_on_win {
    ON_WIN_CANARY, /* the winner becomes the challenger of an ordinary canary */
    ON_WIN_PROMOTE,
    ON_WIN_REPORT, /* the champion stays */
    ON_WIN_COUNT
};

struct experiment_plan {
    uint32_t law, on_win;
    double alpha;  /* probability that any arm is wrongly beaten, over the whole experiment */
    double effect; /* smallest difference of mean reward that matters: for the forecast */
    double floor;  /* top two: least share of an arm */
    uint64_t min_us, max_us; /* no winner before; no verdict after */
    uint64_t max_units;      /* scored outputs, 0 = no limit */
    uint64_t every_units;    /* top two: scored outputs between two looks at the shares */
    uint64_t slice_us;
    uint64_t seed; /* of the order of slices */
};

struct experiment_setup { /* EVENT_EXPERIMENT */
    struct str id;        /* borrowed; unique over the route's life, 1 to 40 bytes */
    struct experiment_plan plan;
    uint32_t n_arm;                              /* 2 to EXPERIMENT_ARMS */
    struct policy_revision arm[EXPERIMENT_ARMS]; /* [0] is the champion */
};

struct experiment_plan experiment_plan_default(void);
/* Keys that are absent keep the default; ERR_INVALID names key, value and range. */
MUST_USE int experiment_plan_decode(const struct json_at *at, struct experiment_plan *out,
                                    struct err *e);
/* Into an object; false = no memory. */
bool experiment_plan_encode(const struct experiment_plan *p, json_t *into);
const char *experiment_law_name(uint32_t law);
const char *experiment_on_win_name(uint32_t on_win);

#endif
