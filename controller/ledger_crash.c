/* controller/ledger_crash.c - an engine that died, and the canaries it served.
 *
 * Only a canary that was in the document the engine had applied is accused: a process that never
 * heard of the challenger did not die of it. After a restart of the controller the version at hand
 * stands for the one at which the trial began, so that an older document accuses nobody. Writer
 * thread. */
#include "controller/ledger_load.h"

void ledger_trials_follow(struct ledger *l)
{
    for (uint32_t i = 0; i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct policy_view v;
        if (!r->course.policy)
            continue;
        policy_view(r->course.policy, &v);
        if (r->trial != v.challenger)
            r->trial_version = l->desired_version;
        r->trial = v.challenger;
    }
}

int ledger_note_crash(struct ledger *l, struct str engine, uint64_t applied, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct policy_view v;
        policy_view(r->course.policy, &v);
        if (!v.challenger || v.challenger != r->trial || applied < r->trial_version)
            continue;
        struct ledger_event crash = {
            .route = r,
            .kind = "crash",
            .reason = arena_printf(&l->arena, "engine " STR_FMT " died", STR_ARG(engine))};
        rc = ledger_event(l, &crash, NULL, e);
    }
    return rc;
}
