/* controller/ledger_crash.c - an engine that died, and the trials it served.
 *
 * Only a canary, or the arms of an experiment's allocation, that were in the document the engine
 * had applied are accused: a process that never heard of them did not die of them. After a restart
 * of the controller the version at hand stands for the one at which the trial began, so that an
 * older document accuses nobody. Writer thread. */
#include "controller/ledger_load.h"

#include "common/hash.h"

#include <string.h>

/* What is on trial: a canary's challenger, an experiment's arms of an allocation; 0 = nothing. */
static uint64_t trial_of(const struct policy_view *v)
{
    if (v->n_arm)
        return hash64(v->experiment, strlen(v->experiment), v->allocation);
    return v->challenger;
}

void ledger_trials_follow(struct ledger *l)
{
    for (uint32_t i = 0; i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct policy_view v;
        if (!r->course.policy)
            continue;
        policy_view(r->course.policy, &v);
        if (r->trial != trial_of(&v))
            r->trial_version = l->desired_version;
        r->trial = trial_of(&v);
    }
}

int ledger_note_crash(struct ledger *l, struct str engine, uint64_t applied, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct policy_view v;
        policy_view(r->course.policy, &v);
        if (!r->trial || trial_of(&v) != r->trial || applied < r->trial_version)
            continue;
        struct ledger_event crash = {
            .route = r,
            .kind = "crash",
            .reason = arena_printf(&l->arena, "engine " STR_FMT " died", STR_ARG(engine))};
        rc = ledger_event(l, &crash, NULL, e);
    }
    return rc;
}
