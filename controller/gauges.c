/* Metric families in one table, so that names and help stand together. */
#include "controller/gauges.h"

#include "controller/store/notices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum gauge {
    G_REWARD,
    G_SCORES,
    G_LAG,
    G_DUPLICATE,
    G_GAPS,
    G_LATE,
    G_REJECTED,
    G_ASSIGNED,
    G_FINISH,
    G_ACTIONS,
    G_LAST_ACTION,
    G_LOG_E,
    G_LOG_THRESHOLD,
    G_EFFECT,
    G_EFFECT_LOWER,
    G_EFFECT_UPPER,
    G_DRIFT,
    G_DESIRED,
    G_APPLIED,
    G_OUTBOX,
    G_OLDEST,
    G_COMMIT,
    G_COMMIT_ROWS,
    G_DECISION_LATENCY,
    G_COMMIT_FAILED,
    G_TURN,
    G_KILL_SWITCH,
    G_WEBHOOK_SENT,
    G_WEBHOOK_RETRIES,
    G_WEBHOOK_FAILED,
    G_WEBHOOK_PENDING,
    G_COUNT
};

static const double ROWS[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};

static const struct metric_desc DESC[G_COUNT] = {
    [G_REWARD] = {"milepost_reward",
                  "Rewards of committed scores.",
                  METRIC_HISTOGRAM,
                  {"verifier", "arm"},
                  METRIC_UNIT,
                  METRIC_UNIT_N},
    [G_SCORES] = {"milepost_scores_total",
                  "Committed scores by outcome.",
                  METRIC_COUNTER,
                  {"verifier", "outcome"},
                  NULL,
                  0},
    [G_LAG] = {"milepost_score_lag_seconds",
               "From admission to the committed score.",
               METRIC_HISTOGRAM,
               {"verifier"},
               METRIC_SECONDS,
               METRIC_SECONDS_N},
    [G_DUPLICATE] = {"milepost_duplicate_scores_total",
                     "Deliveries that changed nothing.",
                     METRIC_COUNTER,
                     {"engine"},
                     NULL,
                     0},
    [G_GAPS] = {"milepost_sequence_gaps_total",
                "Outputs that an engine dropped unsent.",
                METRIC_COUNTER,
                {"engine"},
                NULL,
                0},
    [G_LATE] = {"milepost_late_scores_total",
                "Outputs that came after their gap was closed.",
                METRIC_COUNTER,
                {"engine"},
                NULL,
                0},
    [G_REJECTED] = {"milepost_rejected_frames_total",
                    "Frames that could not be used.",
                    METRIC_COUNTER,
                    {"reason"},
                    NULL,
                    0},
    [G_ASSIGNED] = {"milepost_assignments_total",
                    "Committed outputs per arm.",
                    METRIC_COUNTER,
                    {"route", "arm"},
                    NULL,
                    0},
    [G_FINISH] = {"milepost_finish_total",
                  "Committed outputs by finish reason.",
                  METRIC_COUNTER,
                  {"reason", "arm"},
                  NULL,
                  0},
    [G_ACTIONS] = {"milepost_actions_total",
                   "Decisions by action and the test behind them.",
                   METRIC_COUNTER,
                   {"action", "reason"},
                   NULL,
                   0},
    [G_LAST_ACTION] = {"milepost_last_action_timestamp_seconds",
                       "When the last such decision was made by this process.",
                       METRIC_GAUGE,
                       {"action", "reason"},
                       NULL,
                       0},
    [G_LOG_E] = {"milepost_experiment_log_evalue",
                 "ln of the e-value of a running test, and for a minute of the one that decided.",
                 METRIC_GAUGE,
                 {"route", "test"},
                 NULL,
                 0},
    [G_LOG_THRESHOLD] = {"milepost_experiment_log_threshold",
                         "ln of the e-value at which the test decides.",
                         METRIC_GAUGE,
                         {"route", "test"},
                         NULL,
                         0},
    [G_EFFECT] = {"milepost_experiment_effect",
                  "Mean reward of the arm minus that of the champion.",
                  METRIC_GAUGE,
                  {"route", "arm"},
                  NULL,
                  0},
    [G_EFFECT_LOWER] = {"milepost_experiment_effect_lower",
                        "Lower 95% bound, at any time.",
                        METRIC_GAUGE,
                        {"route", "arm"},
                        NULL,
                        0},
    [G_EFFECT_UPPER] = {"milepost_experiment_effect_upper",
                        "Upper 95% bound, at any time.",
                        METRIC_GAUGE,
                        {"route", "arm"},
                        NULL,
                        0},
    [G_DRIFT] = {"milepost_drift_log_statistic",
                 "ln of the champion's drift statistic.",
                 METRIC_GAUGE,
                 {"route", "stratum"},
                 NULL,
                 0},
    [G_DESIRED] = {"milepost_desired_version",
                   "Version of the desired state.",
                   METRIC_GAUGE,
                   {NULL},
                   NULL,
                   0},
    [G_APPLIED] = {"milepost_engine_applied_version",
                   "Version an engine applies.",
                   METRIC_GAUGE,
                   {"engine"},
                   NULL,
                   0},
    [G_OUTBOX] = {"milepost_queue_depth",
                  "Outputs not yet committed, all outboxes.",
                  METRIC_GAUGE,
                  {NULL},
                  NULL,
                  0},
    [G_OLDEST] = {"milepost_oldest_unscored_seconds",
                  "How long the oldest uncommitted output has waited.",
                  METRIC_GAUGE,
                  {NULL},
                  NULL,
                  0},
    [G_COMMIT] = {"milepost_commit_duration_seconds",
                  "One transaction, to the disk.",
                  METRIC_HISTOGRAM,
                  {NULL},
                  METRIC_SECONDS,
                  METRIC_SECONDS_N},
    [G_COMMIT_ROWS] = {"milepost_commit_rows",
                       "Scores in one transaction.",
                       METRIC_HISTOGRAM,
                       {NULL},
                       ROWS,
                       sizeof ROWS / sizeof *ROWS},
    [G_DECISION_LATENCY] = {"milepost_decision_latency_seconds",
                            "From the commit of a changed desired state to an engine's word that "
                            "it applies it.",
                            METRIC_HISTOGRAM,
                            {"engine"},
                            METRIC_SECONDS,
                            METRIC_SECONDS_N},
    [G_COMMIT_FAILED] = {"milepost_commit_failures_total",
                         "Batches that were rolled back.",
                         METRIC_COUNTER,
                         {NULL},
                         NULL,
                         0},
    [G_TURN] = {"milepost_controller_heartbeat_timestamp_seconds",
                "When the writer thread was last seen to work.",
                METRIC_GAUGE,
                {NULL},
                NULL,
                0},
    [G_KILL_SWITCH] = {"milepost_kill_switch",
                       "1 while all routes are paused at once.",
                       METRIC_GAUGE,
                       {NULL},
                       NULL,
                       0},
    [G_WEBHOOK_SENT] = {"milepost_webhook_sent_total",
                        "Events that a webhook's receiver took.",
                        METRIC_COUNTER,
                        {"webhook"},
                        NULL,
                        0},
    [G_WEBHOOK_RETRIES] = {"milepost_webhook_retries_total",
                           "Attempts that failed and will be made again.",
                           METRIC_COUNTER,
                           {"webhook"},
                           NULL,
                           0},
    [G_WEBHOOK_FAILED] = {"milepost_webhook_failed_total",
                          "Events given up: refused, or not taken in time.",
                          METRIC_COUNTER,
                          {"webhook"},
                          NULL,
                          0},
    [G_WEBHOOK_PENDING] = {"milepost_webhook_pending",
                           "Events that wait for a webhook's receiver.",
                           METRIC_GAUGE,
                           {"webhook"},
                           NULL,
                           0},
};

enum { HOLD_US = 60 * 1000000 };

struct gauges {
    struct metric_family *family[G_COUNT];
    /* Tests shown per route, to be set to 0 when their trial is over; what a decision rests on
     * stays for HOLD_US, so that a scrape sees it. */
    struct shown {
        const char *test[POLICY_TESTS_MAX];
        uint32_t n;
        int64_t hold_until_us;
    } shown[CONTROL_MAX_ROUTES];
    struct str route[CONTROL_MAX_ROUTES]; /* as in the ledger */
    char verifier[80];                    /* of the last score */
};

struct gauges *gauges_new(struct metrics *m)
{
    struct gauges *g = calloc(1, sizeof *g);
    for (int i = 0; g && i < G_COUNT; i++)
        g->family[i] = metrics_add(m, &DESC[i]);
    return g;
}

void gauges_free(struct gauges *g)
{
    free(g);
}

/* Labels are texts from outside: copied, cut at a sane length. */
static struct metric *child(struct gauges *g, enum gauge i, struct str a, struct str b)
{
    char text[2][80];
    const char *values[METRIC_MAX_LABELS] = {text[0], text[1]};
    const struct str parts[] = {a, b};
    for (int k = 0; k < 2; k++) {
        size_t n = parts[k].n < sizeof text[k] ? parts[k].n : sizeof text[k] - 1;
        memcpy(text[k], parts[k].p ? parts[k].p : "", n);
        text[k][n] = 0;
    }
    return metric_child(g->family[i], DESC[i].labels[0] ? values : NULL);
}

static const struct str NONE = {"", 0};

static struct str arm_label(struct str arm)
{
    return str_eq_c(arm, "champion") ? STR("champion") : STR("challenger");
}

static const char *outcome_of(const struct score *sc)
{
    if (!sc->is_scored)
        return "unscored";
    return sc->reward >= 1.0 ? "pass" : sc->reward <= 0.0 ? "fail" : "value";
}

/* A new verifier's outcomes begin at 0, so that the first ones are a rise. */
static void note_verifier(struct gauges *g, struct str verifier)
{
    static const char *const OUTCOMES[] = {"pass", "fail", "value", "unscored"};
    if (str_eq_c(verifier, g->verifier))
        return;
    for (size_t i = 0; i < sizeof OUTCOMES / sizeof *OUTCOMES; i++)
        metric_add(child(g, G_SCORES, verifier, str_from(OUTCOMES[i])), 0);
    size_t n = verifier.n < sizeof g->verifier ? verifier.n : sizeof g->verifier - 1;
    memcpy(g->verifier, verifier.p, n);
    g->verifier[n] = 0;
}

void gauges_frame(struct gauges *g, const struct intake_result *r, int64_t now_us)
{
    if (r->kind == INTAKE_REJECT || r->kind == INTAKE_GARBAGE) {
        metric_inc(child(g, G_REJECTED, str_from(err_info(r->why.code)->label), NONE));
        return;
    }
    if (!r->score)
        return;
    const struct score *sc = r->score;
    const struct output *o = r->output;
    if (r->is_late)
        metric_inc(child(g, G_LATE, o->engine, NONE));
    if (r->kind == INTAKE_DUPLICATE) {
        metric_inc(child(g, G_DUPLICATE, o->engine, NONE));
        return;
    }
    struct str arm = arm_label(o->arm);
    note_verifier(g, sc->verifier);
    metric_inc(child(g, G_SCORES, sc->verifier, str_from(outcome_of(sc))));
    if (sc->is_scored)
        metric_observe(child(g, G_REWARD, sc->verifier, arm), sc->reward);
    metric_observe(child(g, G_LAG, sc->verifier, NONE),
                   fmax(0.0, (double)(now_us - o->created_us) * 1e-6));
    metric_inc(child(g, G_ASSIGNED, o->route, arm));
    metric_inc(child(g, G_FINISH, o->finish_reason, arm));
}

void gauges_decision(struct gauges *g, const struct decision *d)
{
    struct str test = d->test.n ? d->test : STR("operator");
    metric_inc(child(g, G_ACTIONS, d->action, test));
    metric_set(child(g, G_LAST_ACTION, d->action, test), (double)d->at.us * 1e-6);
    if (isnan(d->log_e))
        return;
    metric_set(child(g, G_LOG_E, d->route, test), d->log_e);
    metric_set(child(g, G_LOG_THRESHOLD, d->route, test), d->log_threshold);
    for (uint32_t i = 0; i < CONTROL_MAX_ROUTES; i++)
        if (g->route[i].n && str_eq(g->route[i], d->route))
            g->shown[i].hold_until_us = d->at.us + HOLD_US;
}

void gauges_notice(struct gauges *g, const struct stored_notice *n)
{
    static const enum gauge COUNTED[] = {[NOTICE_WAITS] = G_WEBHOOK_RETRIES,
                                         [NOTICE_SENT] = G_WEBHOOK_SENT,
                                         [NOTICE_GIVEN_UP] = G_WEBHOOK_FAILED};
    metric_inc(child(g, COUNTED[n->state], n->webhook, NONE));
}

void gauges_webhooks(struct gauges *g, const struct ledger *l)
{
    static const enum gauge COUNTERS[] = {G_WEBHOOK_SENT, G_WEBHOOK_RETRIES, G_WEBHOOK_FAILED};
    const struct cfg_list *all = &l->o.config->controller.webhooks;
    for (uint32_t i = 0; i < all->n; i++) {
        struct str name = ((const struct webhook_config *)all->item)[i].name;
        int64_t n = 0;
        for (int k = 0; k < 3; k++) /* from 0 on, so that the first one is a rise */
            metric_add(child(g, COUNTERS[k], name, NONE), 0);
        if (store_count_waiting(l->store, name, &n, NULL) == ERR_OK)
            metric_set(child(g, G_WEBHOOK_PENDING, name, NONE), (double)n);
    }
}

void gauges_gap(struct gauges *g, struct str engine, uint64_t n)
{
    metric_add(child(g, G_GAPS, engine, NONE), (double)n);
}

void gauges_commit(struct gauges *g, double seconds, uint32_t rows, bool is_ok)
{
    if (!is_ok) {
        metric_inc(child(g, G_COMMIT_FAILED, NONE, NONE));
        return;
    }
    metric_observe(child(g, G_COMMIT, NONE, NONE), seconds);
    metric_observe(child(g, G_COMMIT_ROWS, NONE, NONE), rows);
}

void gauges_applied(struct gauges *g, const char *engine, double seconds)
{
    metric_observe(child(g, G_DECISION_LATENCY, str_from(engine), NONE), seconds);
}

static void refresh_tests(struct gauges *g, uint32_t at, struct str route,
                          const struct policy_view *v, int64_t now_us)
{
    struct shown *s = &g->shown[at];
    for (uint32_t i = 0; i < s->n && now_us >= s->hold_until_us; i++)
        metric_set(child(g, G_LOG_E, route, str_from(s->test[i])), 0.0);
    for (uint32_t i = 0; i < v->n_test; i++) {
        struct str name = str_from(v->test[i].name);
        metric_set(child(g, G_LOG_E, route, name), v->test[i].log_e);
        metric_set(child(g, G_LOG_THRESHOLD, route, name), v->test[i].log_threshold);
        s->test[i] = v->test[i].name;
    }
    if (v->n_test)
        s->n = v->n_test;
}

static void set_effect(struct gauges *g, struct str route, struct str arm, double effect,
                       double lower, double upper)
{
    metric_set(child(g, G_EFFECT, route, arm), effect);
    metric_set(child(g, G_EFFECT_LOWER, route, arm), lower);
    metric_set(child(g, G_EFFECT_UPPER, route, arm), upper);
}

/* Of a canary's challenger, or of each arm of an experiment. */
static void refresh_effects(struct gauges *g, struct str route, const struct policy_view *v)
{
    char name[16];
    if (v->challenger)
        set_effect(g, route, STR("challenger"), v->numbers.effect, v->numbers.effect_lower,
                   v->numbers.effect_upper);
    for (uint32_t k = 1; k < v->n_arm; k++) {
        const struct policy_effect_view *x = &v->arm_effect[k];
        snprintf(name, sizeof name, "arm-%u", k);
        if (!isnan(x->effect))
            set_effect(g, route, str_from(name), x->effect, x->lower, x->upper);
    }
}

static void refresh_route(struct gauges *g, uint32_t at, const struct ledger_route *r,
                          int64_t now_us)
{
    struct policy_view v;
    struct str route = str_from(r->course.route);
    policy_view(r->course.policy, &v);
    g->route[at] = route;
    refresh_tests(g, at, route, &v, now_us);
    for (uint32_t i = 0; i < v.n_drift; i++) {
        if (v.drift[i].is_frozen)
            metric_set(child(g, G_DRIFT, route, str_from(v.drift[i].stratum)), v.drift[i].log_m);
    }
    refresh_effects(g, route, &v);
}

void gauges_refresh(struct gauges *g, const struct ledger *l, const struct control_server *cs,
                    int64_t now_us)
{
    double outbox = 0;
    for (uint32_t i = 0; i < l->n_route && i < CONTROL_MAX_ROUTES; i++)
        refresh_route(g, i, &l->route[i], now_us);
    metric_set(child(g, G_TURN, NONE, NONE), (double)now_us * 1e-6);
    metric_set(child(g, G_KILL_SWITCH, NONE, NONE), l->kill_switch.is_on);
    metric_set(child(g, G_DESIRED, NONE, NONE), (double)l->desired_version);
    for (uint32_t i = 0; i < cs->n_peer; i++) {
        const struct engine_peer *p = &cs->peer[i];
        outbox += (double)p->beat.outbox_rows;
        gauges_gap(g, str_from(p->engine), 0); /* from 0 on, so that the first gap is a rise */
        metric_set(child(g, G_APPLIED, str_from(p->engine), NONE), (double)p->beat.desired_version);
    }
    metric_set(child(g, G_OUTBOX, NONE, NONE), outbox);
    metric_set(child(g, G_OLDEST, NONE, NONE), control_server_oldest_seconds(cs));
}
