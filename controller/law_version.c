/* Which version made the decisions is a setting; absent in databases from before there was one.
 *
 * Invariant: after the first batch the setting is this version, and the course of every route is
 * one that this version recomputes from its last mark on. */
#include "controller/law_version.h"

#include "common/log.h"
#include "controller/replay.h"

#include <stdio.h>
#include <string.h>

static const char KEY[] = "law_version";

static int stored_version(struct ledger *l, int64_t *out, struct err *e)
{
    struct arena a;
    struct str text;
    *out = 0;
    arena_init(&a, KiB);
    int rc = store_setting_get(l->store, KEY, &a, &text, e);
    if (rc == ERR_OK)
        rc = str_to_i64(text, out, e);
    arena_free(&a);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int law_version_check(struct ledger *l, struct err *e)
{
    struct replay_report report;
    int64_t version, n_events;
    l->law_fit = LAW_FITS;
    int rc = stored_version(l, &version, e);
    if (rc == ERR_OK)
        rc = store_number(l->store, "SELECT count(*) FROM (SELECT 1 FROM events LIMIT 1)",
                          &n_events, e);
    if (rc != ERR_OK || version == COURSE_LAW_VERSION || n_events == 0)
        return rc;
    log_event(LOG_INFO, "law.check", "database=%lld this=%d", (long long)version,
              COURSE_LAW_VERSION);
    rc = replay_decisions(l->o.database, l->o.stop, &report, e);
    if (rc != ERR_OK)
        return err_wrap(e, "decisions of another version");
    l->law_fit = report.decisions_agree ? LAW_AGAIN : LAW_OTHER;
    if (l->law_fit == LAW_OTHER) {
        snprintf(l->law_difference, sizeof l->law_difference, "%.400s", report.difference);
        log_event(LOG_WARN, "law.other",
                  "why=\"this version decides otherwise: %s; each route begins anew from its "
                  "champion\"",
                  l->law_difference);
    }
    return ERR_OK;
}

static struct ledger_event event_of(struct ledger *l, struct ledger_route *r)
{
    return (struct ledger_event){
        .route = r,
        .kind = "law",
        .actor = STR("upgrade"),
        .reason = arena_printf(&l->arena, "another version of the laws; replay by this one: %s",
                               l->law_difference),
        .payload = arena_printf(&l->arena, "{\"version\":%d}", COURSE_LAW_VERSION)};
}

int law_version_mark(struct ledger *l, struct ledger_route *r, struct err *e)
{
    struct stored_state was;
    struct ledger_event ev = event_of(l, r);
    r->is_anew = false;
    if (r->course.policy)
        return ERR_OK;
    int rc = store_get_state(l->store, str_from(r->course.route), &l->arena, &was, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    r->is_anew = true;
    return l->law_fit == LAW_OTHER ? ledger_event(l, &ev, NULL, e) : ERR_OK;
}

static int restart(struct ledger *l, struct ledger_route *r, const struct stored_state *was,
                   struct err *e)
{
    uint64_t decision = 0;
    struct ledger_event ev = {
        .route = r,
        .kind = "champion",
        .actor = STR("upgrade"),
        .reason = was->experiment.n
                      ? STR("a trial of another version of the laws ends without a verdict")
                      : STR("another version of the laws begins anew"),
        .payload = arena_printf(&l->arena,
                                "{\"revision\":%llu,\"why\":\"upgrade\",\"challenger\":%llu,"
                                "\"experiment\":\"" STR_FMT "\"}",
                                (unsigned long long)was->champion,
                                (unsigned long long)was->challenger, STR_ARG(was->experiment))};
    int rc = ledger_event(l, &ev, &decision, e);
    if (rc == ERR_OK && was->experiment.n)
        rc = store_end_experiment(l->store, was->experiment, STR("expire"), decision, l->now_us, e);
    ev.kind = "hold";
    ev.reason = STR("it was on hold");
    ev.payload = (struct str){0};
    return rc == ERR_OK && str_eq_c(was->phase, "safe") ? ledger_event(l, &ev, NULL, e) : rc;
}

int law_version_restart(struct ledger *l, struct ledger_route *r, struct err *e)
{
    struct stored_state was;
    if (!r->is_anew)
        return ERR_OK;
    int rc = store_get_state(l->store, str_from(r->course.route), &l->arena, &was, e);
    return rc == ERR_OK && was.champion ? restart(l, r, &was, e) : rc;
}

/* Routes that have a state but are not configured: no law is fed, so only the mark is written. */
static int mark_absent(struct ledger *l, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(l->store, "SELECT route FROM policy_state", &q, e);
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK) {
        struct str route = arena_str(&l->arena, db_col_str(q, 0));
        struct ledger_event ev = event_of(l, NULL);
        struct stored_event stored = {.route = route,
                                      .kind = STR("law"),
                                      .at_us = l->now_us,
                                      .actor = ev.actor,
                                      .reason = ev.reason,
                                      .payload = ev.payload};
        if (route.n && !ledger_route_of(l, route))
            rc = store_add_event(l->store, &stored, e);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int law_version_keep(struct ledger *l, struct err *e)
{
    char text[16];
    int rc = l->law_fit == LAW_OTHER ? mark_absent(l, e) : ERR_OK;
    snprintf(text, sizeof text, "%d", COURSE_LAW_VERSION);
    l->law_fit = LAW_FITS;
    return rc == ERR_OK ? store_setting_put(l->store, KEY, str_from(text), e) : rc;
}
