/* controller/experiments/experiment.h - one experiment of a route, from its start to its report.
 *
 * A state machine beside the route's law, fed the same events: it restores the order of admission,
 * keeps to one version of the checks, plays the contest, drops arms, changes shares, ends. While it
 * runs the law's own trials wait (PHASE_EXPERIMENT). Rows tell which allocation they were admitted
 * under: the document names the experiment "ID.ALLOCATION", and engines echo it. After its end the
 * state stays, for the report, until the next one starts. Pure. */
#ifndef CONTROLLER_EXPERIMENTS_EXPERIMENT_H
#define CONTROLLER_EXPERIMENTS_EXPERIMENT_H

#include "controller/experiments/contest.h"
#include "controller/policies/era.h"
#include "controller/stats/admission.h"

enum { EXPERIMENT_ID_BYTES = 41, EXPERIMENT_PAST = 16, EXPERIMENT_NONE_WINS = EXPERIMENT_ARMS };

enum experiment_phase { EXPERIMENT_IDLE, EXPERIMENT_RUNNING, EXPERIMENT_ENDED };

struct experiment_arm {
    struct policy_revision revision;
    double share;        /* now */
    double expected;     /* rows promised by the shares of their admissions */
    uint64_t n_rows;     /* rows seen */
    uint64_t n_seen;     /* for the split: rows whose shares are known */
    uint32_t recent_bad; /* last 20 rows, a bit each: invalid, or an engine error */
    uint32_t beaten_by;  /* arm that beat it; EXPERIMENT_NONE_WINS: still in, or a hard trip */
};

struct experiment_past {
    uint64_t allocation; /* number */
    double share[EXPERIMENT_ARMS];
};

struct experiment_round { /* of slices */
    uint64_t number, first_allocation, is_open;
    uint32_t n, order[EXPERIMENT_ARMS];
    uint64_t n_scored[EXPERIMENT_ARMS], n_unscored[EXPERIMENT_ARMS]; /* [arm] */
    double sum[EXPERIMENT_ARMS];
};

struct experiment {
    uint32_t phase, n_arm, winner;
    char id[EXPERIMENT_ID_BYTES];
    char outcome[16]; /* "running" "winner" "better" "no_verdict" "stopped" */
    struct experiment_plan plan;
    struct experiment_arm arm[EXPERIMENT_ARMS];
    struct contest contest;
    struct admission_queue queue;
    struct era era;
    uint32_t n_strata;
    uint64_t stratum_tag[POLICY_STRATA_MAX];
    uint64_t now_us, started_us, ended_us;
    uint64_t allocation;                          /* number of the one in force */
    struct experiment_past past[EXPERIMENT_PAST]; /* [allocation % EXPERIMENT_PAST] */
    uint64_t share_units;                         /* scored rows at the last look at the shares */
    struct experiment_round round[2];             /* this one and the one before */
    uint64_t n_rounds, slice_end_us;
    uint32_t slice_at; /* in the order of this round */
    uint64_t srm_n, srm_next;
    uint32_t is_split_broken;
    uint64_t first_row, last_row, first_admission, last_admission;
};

extern const struct state_field EXPERIMENT_FIELDS[];

/* NULL = the event may be fed. */
const char *experiment_refuses(const struct experiment *x, const struct policy_event *ev);
/* Every event of the route, before the law gets it. */
void experiment_step(struct experiment *x, const struct policy_settings *s,
                     const struct policy_event *ev, struct policy_actions *out);
uint64_t experiment_wake_us(const struct experiment *x, const struct policy_settings *s);
/* Phase and arms into a law's view. */
void experiment_view(const struct experiment *x, struct policy_view *out);

/* Chi-square p of the split over all arms; 1 while little is known. */
double experiment_split_p(const struct experiment *x);
/* Everything people see of it, as JSON: controller/API.md, EXPERIMENT. New object; NULL = no
 * memory, or none was ever started. */
json_t *experiment_report(const struct experiment *x);

#endif
