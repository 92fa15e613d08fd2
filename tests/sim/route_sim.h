/* tests/sim/route_sim.h - one route with its policy, in virtual time.
 *
 * Closed loop: `clients` requests are always in flight; each is admitted with a number, draws its
 * arm by the split in force, takes an exponential time, and is committed in the order in which the
 * requests end. Actions are carried out at once, proposals become revisions. Every random number
 * comes from one seed. */
#ifndef TESTS_SIM_ROUTE_SIM_H
#define TESTS_SIM_ROUTE_SIM_H

#include "common/rng.h"
#include "controller/policy.h"

enum { SIM_CLIENTS_MAX = 64, SIM_REVISIONS = 64, SIM_STRATA = 4 };

/* What a revision earns. */
struct sim_quality {
    double mean[SIM_STRATA]; /* of the reward per stratum */
    double sd;               /* 0 = Bernoulli, else a clipped normal */
    double p_truncated, p_unscored, p_invalid;
    double seconds; /* mean service time */
};

typedef struct sim_quality sim_quality_fn(const double knob[PARAM_COUNT]);

struct sim_request {
    struct policy_row row;
    double end_s;
};

struct route_sim {
    struct policy *policy;
    struct rng rng;
    double now_s;
    int clients, n_strata;
    bool is_pooled; /* outputs do not tell their stratum */
    uint64_t n_committed, n_admitted;
    struct sim_request in_flight[SIM_CLIENTS_MAX];
    struct policy_revision revision[SIM_REVISIONS]; /* [number] */
    struct sim_quality quality[SIM_REVISIONS];
    sim_quality_fn *quality_of; /* for proposals */
    uint64_t n_revisions, champion, challenger;
    double share;
    char experiment[POLICY_ID_BYTES];
    uint64_t n_experiments;
    struct policy_actions last; /* of the last event */
    uint64_t count[ACTION_KIND_COUNT];
    void (*on_event)(void *ctx, const struct policy_event *ev, const struct policy_actions *acts);
    void *ctx;
};

/* Opens the policy and gives revision 1 as its champion. Aborts on a mistake in the settings. */
void sim_open(struct route_sim *s, const struct policy_settings *settings, uint64_t seed,
              int clients, int n_strata);
void sim_close(struct route_sim *s);

/* New revision; returns its number. */
uint64_t sim_add_revision(struct route_sim *s, const double knob[PARAM_COUNT],
                          const struct sim_quality *q);
void sim_champion(struct route_sim *s, uint64_t number);
void sim_start(struct route_sim *s, uint64_t number, bool is_now, bool is_own);

/* Commits one more output. */
void sim_step(struct route_sim *s);
/* Steps until an action of this kind happens or `limit` outputs more were committed; the outputs
 * committed meanwhile, or 0 when the limit came first. *act is the action (may be NULL). */
uint64_t sim_run_until(struct route_sim *s, enum policy_action_kind kind, uint64_t limit,
                       struct policy_action *act);
/* Feeds any event, carries out its actions. */
void sim_feed(struct route_sim *s, const struct policy_event *ev);

#endif
