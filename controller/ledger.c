/* Batches; see the header. Invariant: between batches, memory is a function of the database. */
#include "controller/ledger.h"

#include "common/log.h"
#include "common/rng.h"
#include "controller/finetune.h"
#include "controller/guard.h"
#include "controller/law_version.h"
#include "controller/ledger_load.h"
#include "controller/notices.h"
#include "controller/store/applied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_MEMORY = 256 * 1024 * 1024,
    TICK_EVERY_US = 200000,
    SAVE_EVERY_US = 500000,
    MAX_HOLES = 1024
};

struct ledger_route *ledger_route_of(struct ledger *l, struct str name)
{
    if (name.n == 0)
        return l->n_route ? &l->route[0] : NULL;
    for (uint32_t i = 0; i < l->n_route; i++) {
        if (str_eq_c(name, l->route[i].course.route))
            return &l->route[i];
    }
    return NULL;
}

int64_t ledger_now_us(const struct ledger *l)
{
    int64_t wall = clock_wall(&l->o.clock).us;
    if (wall >= l->now_us)
        return wall;
    return l->now_us + (int64_t)mono_since_us(l->now_at, clock_mono(&l->o.clock));
}

int ledger_begin(struct ledger *l, struct err *e)
{
    if (l->is_open)
        return ERR_OK;
    arena_reset(&l->arena);
    l->n_pending = 0;
    l->has_decisions = false;
    l->first_decision = l->n_decisions + 1;
    l->now_us = ledger_now_us(l);
    l->now_at = clock_mono(&l->o.clock);
    int rc = store_begin(l->store, e);
    l->is_open = rc == ERR_OK;
    return rc;
}

int ledger_abort(struct ledger *l, struct err *e)
{
    store_rollback(l->store);
    l->is_open = false;
    l->rollups.n = 0;
    return ledger_load(l, e);
}

/* What a decision changes besides the laws. */
static int follow_action(struct ledger *l, struct ledger_route *r, const struct decision *d,
                         const struct policy_action *act, struct err *e)
{
    struct str route = str_from(r->course.route);
    struct experiment_start x = {.id = d->experiment,
                                 .route = route,
                                 .actor = d->actor,
                                 .champion = d->from_revision,
                                 .challenger = d->to_revision,
                                 .decision = d->number,
                                 .at_us = d->at.us};
    switch (act->kind) {
    case ACTION_START_CANARY:
        return act->is_experiment || act->to_revision != act->from_revision
                   ? ERR_OK
                   : finetune_when_low(l, r, d, e);
    case ACTION_QUARANTINE:
        return store_quarantine(l->store, route, str_from(act->hash), act->from_revision, d->number,
                                d->at.us, e);
    case ACTION_SET_SPLIT:
    case ACTION_ALLOCATE:
        return store_start_experiment(l->store, &x, e);
    case ACTION_CONCLUDE:
        return store_end_experiment(l->store, d->experiment, d->test, d->number, d->at.us, e);
    case ACTION_PROMOTE:
    case ACTION_ROLLBACK:
    case ACTION_EXPIRE:
        return d->experiment.n && !act->is_experiment
                   ? store_end_experiment(l->store, d->experiment, d->action, d->number, d->at.us,
                                          e)
                   : ERR_OK;
    default:
        return ERR_OK;
    }
}

/* An operator who goes back to an earlier revision leaves the present one for a reason. */
static int quarantine_left(struct ledger *l, struct ledger_route *r, const struct decision *d,
                           struct err *e)
{
    struct revision left;
    if (!str_eq_c(d->action, "rollback") || d->from_revision == 0)
        return ERR_OK;
    int rc = store_get_revision(l->store, d->from_revision, &l->arena, &left, e);
    return rc == ERR_OK ? store_quarantine(l->store, str_from(r->course.route), str_from(left.hash),
                                           left.number, d->number, d->at.us, e)
                        : rc;
}

static void keep_proposal(struct ledger *l, struct ledger_route *r, const struct policy_action *act)
{
    if (l->n_pending == sizeof l->pending / sizeof *l->pending)
        return; /* a law has one open proposal; this is one per route and step */
    struct pending_proposal *p = &l->pending[l->n_pending++];
    bool is_revert = !act->is_experiment && act->to_revision != act->from_revision;
    *p = (struct pending_proposal){.route = (uint32_t)(r - l->route),
                                   .from_revision = act->from_revision,
                                   .winner = act->is_experiment ? act->to_revision : 0,
                                   .reverts_to = is_revert ? act->to_revision : 0,
                                   .knob = act->knob,
                                   .value = act->value};
    memcpy(p->reason, act->reason, sizeof p->reason);
}

/* Decision i of the event just fed, and what follows from it. */
static int record_one(struct ledger *l, struct ledger_route *r, uint64_t ord, uint32_t i,
                      struct err *e)
{
    struct decision *d = &l->result->decision[i];
    const struct policy_action *act = l->result->action[i];
    int rc = store_add_decision(l->store, d, ord, e);
    l->n_decisions = d->number;
    if (rc == ERR_OK)
        rc = act ? follow_action(l, r, d, act, e) : quarantine_left(l, r, d, e);
    if (rc == ERR_OK)
        rc = notices_decision(l, d, e);
    if (rc == ERR_OK && act && act->kind == ACTION_START_CANARY)
        keep_proposal(l, r, act);
    if (rc == ERR_OK && l->o.hooks.decision)
        l->o.hooks.decision(l->o.hooks.ctx, d);
    return rc;
}

static int record(struct ledger *l, struct ledger_route *r, uint64_t ord, uint64_t *first,
                  struct err *e)
{
    struct course_result *res = l->result;
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < res->n; i++) {
        rc = record_one(l, r, ord, i, e);
        if (first && *first == 0)
            *first = res->decision[i].number;
    }
    r->is_dirty = r->is_unsaved = true;
    if (rc == ERR_OK && res->n) {
        l->has_decisions = r->must_save = true;
        rc = ledger_tally_follow(l, r, e);
    }
    return rc;
}

static int write_event(struct ledger *l, const struct ledger_event *ev, uint64_t *decision,
                       struct err *e)
{
    struct ledger_route *r = ev->route;
    struct stored_event stored = {.route = str_from(r->course.route),
                                  .kind = str_from(ev->kind),
                                  .at_us = l->now_us,
                                  .actor = ev->actor,
                                  .reason = ev->reason,
                                  .payload = ev->payload.n ? ev->payload : STR("{}")};
    /* The law is asked first: what it refuses is not written. */
    int rc = store_last_ord(l->store, &stored.ord, e);
    stored.ord++;
    if (rc == ERR_OK)
        rc = course_feed_event(&r->course, &stored, &l->arena, l->result, e);
    if (rc == ERR_OK)
        rc = store_add_event(l->store, &stored, e);
    if (strcmp(ev->kind, "tick") != 0)
        r->must_save = true; /* readers of the database see what was asked for at once */
    return rc == ERR_OK ? record(l, r, stored.ord, decision, e) : rc;
}

/* The revision a proposal asks for, or why it may not be. */
static int proposed_revision(struct ledger *l, const struct pending_proposal *p,
                             struct revision *out, struct err *e)
{
    struct ledger_route *r = &l->route[p->route];
    struct revision from;
    bool is_quarantined = false;
    if (p->winner)
        return store_get_revision(l->store, p->winner, &l->arena, out, e);
    int rc = store_get_revision(l->store, p->from_revision, &l->arena, &from, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct revision){
        .parent = from.number,
        .route = str_from(r->course.route),
        .params = from.params,
        .author = arena_printf(&l->arena, "policy:%s", policy_law_name(r->config->policy.kind)),
        .reason = str_from(p->reason),
        .created = {l->now_us}};
    rc = params_put(&out->params.defaults, p->knob, p->value, e);
    if (rc == ERR_OK)
        rc = guard_check_proposal(r->config, policy_settings_of(r->course.policy), &from.params,
                                  &out->params, e);
    if (rc != ERR_OK)
        return rc;
    param_set_hash(&out->params, out->hash);
    rc = store_is_quarantined(l->store, out->route, str_from(out->hash), &is_quarantined, e);
    if (rc == ERR_OK && is_quarantined)
        rc = err_set(e, ERR_CONFLICT, "the same parameters were rolled back before (quarantine)");
    return rc;
}

static int refuse_proposal(struct ledger *l, struct ledger_route *r, const struct err *why,
                           struct err *e)
{
    struct ledger_event stop = {.route = r,
                                .kind = "stop",
                                .actor = STR("guard"),
                                .reason = arena_str(&l->arena, str_from(why->msg))};
    log_event(LOG_WARN, "guard.reject", "route=%s why=\"%s\"", r->course.route, why->msg);
    return write_event(l, &stop, NULL, e);
}

/* The previous champion against the present one, which a drift makes suspect. */
static int open_revert(struct ledger *l, const struct pending_proposal *p, struct err *e)
{
    struct ledger_route *r = &l->route[p->route];
    uint64_t ord;
    int rc = store_last_ord(l->store, &ord, e);
    if (rc != ERR_OK)
        return rc;
    struct ledger_event start = {
        .route = r,
        .kind = "start",
        .actor = arena_printf(&l->arena, "policy:%s", policy_law_name(r->config->policy.kind)),
        .reason = arena_str(&l->arena, str_from(p->reason)),
        .payload = arena_printf(&l->arena,
                                "{\"revision\":%llu,\"experiment\":\"revert-%llu\",\"is_own\":true,"
                                "\"is_revert\":true}",
                                (unsigned long long)p->reverts_to, (unsigned long long)ord + 1)};
    return write_event(l, &start, NULL, e);
}

static int open_proposal(struct ledger *l, const struct pending_proposal *p, struct err *e)
{
    struct ledger_route *r = &l->route[p->route];
    struct revision rev;
    struct err why = {0};
    if (p->reverts_to)
        return open_revert(l, p, e);
    int rc = proposed_revision(l, p, &rev, &why);
    if (rc == ERR_INVALID || rc == ERR_CONFLICT || rc == ERR_UNSUPPORTED)
        return refuse_proposal(l, r, &why, e);
    if (rc != ERR_OK) {
        if (e)
            *e = why;
        return rc;
    }
    if (!p->winner)
        rc = store_add_revision(l->store, &rev, e);
    if (rc != ERR_OK)
        return rc;
    struct ledger_event start = {
        .route = r,
        .kind = "start",
        .actor = p->winner ? STR("policy:experiment") : rev.author,
        .reason = str_from(p->reason),
        .payload =
            arena_printf(&l->arena, "{\"revision\":%llu,\"experiment\":\"e%llu\",\"is_own\":true}",
                         (unsigned long long)rev.number, (unsigned long long)rev.number)};
    return write_event(l, &start, NULL, e);
}

static int open_proposals(struct ledger *l, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_pending; i++) {
        struct pending_proposal p = l->pending[i];
        rc = open_proposal(l, &p, e);
    }
    l->n_pending = 0;
    return rc;
}

int ledger_event(struct ledger *l, const struct ledger_event *ev, uint64_t *decision, struct err *e)
{
    if (decision)
        *decision = 0;
    int rc = write_event(l, ev, decision, e);
    return rc == ERR_OK ? open_proposals(l, e) : rc;
}

static int feed_row(struct ledger *l, const struct scored_row *row, struct err *e)
{
    int rc = rollups_add(&l->rollups, l->store, row, e);
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        rc = course_feed_row(&r->course, row, &l->arena, l->result, e);
        if (rc == ERR_OK)
            ledger_tally(r, row);
        if (rc == ERR_OK)
            rc = record(l, r, row->row, NULL, e);
    }
    return rc == ERR_OK ? open_proposals(l, e) : rc;
}

static void seen(struct ledger *l, struct str engine, uint64_t epoch, uint64_t seq)
{
    struct tracker_source *s = tracker_find(l->tracker, engine, epoch, true);
    if (s)
        tracker_add(s, seq);
}

int ledger_score(struct ledger *l, const struct sealed_score *x, struct put_result *out,
                 struct err *e)
{
    struct scored_row row;
    int rc = store_put_score(l->store, x, l->now_us, out, e);
    if (rc != ERR_OK)
        return rc;
    seen(l, x->output->engine, x->output->epoch, x->output->seq);
    l->n_outputs += out->is_new_output;
    l->n_scores += out->is_new_score;
    l->n_unscored += out->is_new_score && !x->score->is_scored;
    if (!out->is_counted)
        return ERR_OK;
    store_row_of(x, out, l->now_us, &row);
    return feed_row(l, &row, e);
}

int ledger_feedback(struct ledger *l, const struct feedback *f, bool *is_new, struct err *e)
{
    int rc = store_put_feedback(l->store, f, l->now_us, is_new, e);
    if (rc == ERR_OK)
        seen(l, f->engine, f->epoch, f->seq);
    l->n_feedback += rc == ERR_OK && *is_new;
    return rc;
}

int ledger_reject(struct ledger *l, const struct output *key, struct str raw, const char *reason,
                  bool *is_new, struct err *e)
{
    int rc = store_put_reject(l->store, key, raw, reason, l->now_us, is_new, e);
    if (rc == ERR_OK)
        seen(l, key->engine, key->epoch, key->seq);
    return rc;
}

int ledger_note_oldest(struct ledger *l, struct str engine, uint64_t epoch, uint64_t oldest,
                       uint64_t dropped, struct err *e)
{
    struct seq_range hole[MAX_HOLES];
    struct tracker_source *s = tracker_find(l->tracker, engine, epoch, true);
    if (!s)
        return ERR_OK;
    uint32_t n = tracker_note_oldest(s, oldest, dropped, hole, MAX_HOLES);
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < n; i++) {
        rc = store_put_gap(l->store, engine, epoch, hole[i].first, hole[i].last, l->now_us, e);
        if (rc == ERR_OK && l->o.hooks.gap)
            l->o.hooks.gap(l->o.hooks.ctx, engine, hole[i].last - hole[i].first + 1);
    }
    return rc;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a && (!b || a < b) ? a : b;
}

int64_t ledger_wake_us(const struct ledger *l)
{
    int64_t first = 0;
    for (uint32_t i = 0; i < l->n_route; i++) {
        const struct ledger_route *r = &l->route[i];
        int64_t wake = (int64_t)policy_wake_us(r->course.policy);
        if (wake && wake < r->ticked_us + TICK_EVERY_US)
            wake = r->ticked_us + TICK_EVERY_US;
        first = earlier(wake, first);
        if (r->is_unsaved)
            first = earlier(r->saved_us + SAVE_EVERY_US, first);
    }
    return first;
}

int ledger_ticks(struct ledger *l, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        uint64_t wake = policy_wake_us(r->course.policy);
        if (!wake || (uint64_t)l->now_us < wake || l->now_us < r->ticked_us + TICK_EVERY_US)
            continue;
        r->ticked_us = l->now_us;
        rc = ledger_event(l, &(struct ledger_event){.route = r, .kind = "tick"}, NULL, e);
    }
    return rc;
}

static int fill_source(struct ledger *l, struct ledger_route *r, struct arena *a,
                       struct desired_source *out, struct err *e)
{
    struct policy_view *v = arena_alloc(a, sizeof *v);
    struct revision *rev = arena_array(a, 2 + POLICY_ARMS_MAX, sizeof *rev);
    if (!v || !rev)
        return err_set(e, ERR_NOMEM, "no memory for the desired state");
    policy_view(r->course.policy, v);
    *out = (struct desired_source){.route = str_from(r->course.route),
                                   .salt = str_from(r->salt),
                                   .view = v,
                                   .champion = &rev[0]};
    int rc = store_get_revision(l->store, v->champion, a, &rev[0], e);
    if (rc == ERR_OK && v->challenger) {
        out->challenger = &rev[1];
        rc = store_get_revision(l->store, v->challenger, a, &rev[1], e);
    }
    for (uint32_t k = 0; rc == ERR_OK && k < v->n_arm; k++) {
        out->arm = &rev[2];
        rc = store_get_revision(l->store, v->arm_revision[k], a, &rev[2 + k], e);
    }
    return rc;
}

int ledger_desired(struct ledger *l, struct arena *a, struct desired *out, struct err *e)
{
    struct desired_source *src = arena_array(a, l->n_route + 1, sizeof *src);
    if (!src)
        return err_set(e, ERR_NOMEM, "no memory for the desired state");
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++)
        rc = fill_source(l, &l->route[i], a, &src[i], e);
    return rc == ERR_OK ? desired_build(src, l->n_route, l->desired_version, a, out, e) : rc;
}

/* A new version when the content changed, in the transaction of what changed it. */
static int update_desired(struct ledger *l, struct err *e)
{
    struct desired d;
    char hash[65], number[24];
    int rc = ledger_desired(l, &l->arena, &d, e);
    if (rc == ERR_OK)
        rc = desired_hash(&d, hash, e);
    if (rc != ERR_OK || strcmp(hash, l->desired_hash) == 0)
        return rc;
    l->desired_version++;
    memcpy(l->desired_hash, hash, sizeof hash);
    ledger_trials_follow(l);
    snprintf(number, sizeof number, "%llu", (unsigned long long)l->desired_version);
    rc = store_put_version(l->store, l->desired_version, l->first_decision, l->n_decisions,
                           l->now_us, e);
    if (rc == ERR_OK)
        rc = store_setting_put(l->store, "desired_version", str_from(number), e);
    return rc == ERR_OK ? store_setting_put(l->store, "desired_hash", str_from(hash), e) : rc;
}

/* A law's state has hundreds of kilobytes while rows wait for their turn. It is a function of the
 * rows, so it may be older than the last of them: a start feeds the rest again (catch_up). */
static bool is_save_due(const struct ledger *l, const struct ledger_route *r)
{
    return r->is_unsaved && (r->must_save || l->is_closing || r->saved_us == 0 ||
                             l->now_us >= r->saved_us + SAVE_EVERY_US);
}

static int save_state(struct ledger *l, struct ledger_route *r, struct err *e)
{
    struct stored_state st;
    int rc = course_save(&r->course, &l->arena, &st, e);
    if (rc == ERR_OK)
        rc = store_put_state(l->store, &st, e);
    r->is_unsaved = r->must_save = false;
    r->saved_us = l->now_us;
    return rc;
}

static int save_states(struct ledger *l, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        if (r->is_dirty)
            rc = ledger_tally_save(l, r, e);
        r->is_dirty = false;
        if (rc == ERR_OK && is_save_due(l, r))
            rc = save_state(l, r, e);
    }
    return rc;
}

static int save_marks(struct ledger *l, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->tracker->n_source; i++) {
        struct tracker_source *s = &l->tracker->source[i];
        if (!s->is_changed)
            continue;
        rc = store_put_mark(l->store, str_from(s->engine), s->epoch, s->mark, e);
        s->is_changed = false;
    }
    return rc;
}

static int save_sums(struct ledger *l, struct err *e)
{
    const uint64_t totals[TOTAL_KINDS] = {l->n_outputs, l->n_scores, l->n_unscored, l->n_feedback};
    int rc = rollups_write(&l->rollups, l->store, e);
    return rc == ERR_OK ? store_put_totals(l->store, totals, e) : rc;
}

int ledger_commit(struct ledger *l, struct err *e)
{
    if (!l->is_open)
        return ERR_OK;
    int rc = save_states(l, e);
    if (rc == ERR_OK)
        rc = save_sums(l, e);
    if (rc == ERR_OK)
        rc = save_marks(l, e);
    if (rc == ERR_OK && (l->has_decisions || l->desired_hash[0] == 0))
        rc = update_desired(l, e);
    if (rc == ERR_OK)
        rc = store_commit(l->store, e);
    if (rc == ERR_OK) {
        l->is_open = false;
        l->committed = clock_mono(&l->o.clock);
    }
    return rc;
}

int ledger_open(struct ledger **out, const struct ledger_options *o, struct err *e)
{
    *out = NULL;
    struct ledger *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for the ledger");
    l->o = *o;
    rng_seed(&l->rng, o->seed);
    arena_init(&l->arena, BATCH_MEMORY);
    l->n_route = o->config->routes.n;
    l->route = calloc(l->n_route + 1, sizeof *l->route);
    l->result = calloc(1, sizeof *l->result);
    int rc = l->route && l->result ? store_open(&l->store, o->database, o->stop, e)
                                   : err_set(e, ERR_NOMEM, "no memory for the ledger");
    if (rc == ERR_OK)
        rc = law_version_check(l, e);
    if (rc == ERR_OK)
        rc = ledger_load(l, e);
    if (rc == ERR_OK)
        rc = ledger_begin(l, e);
    if (rc == ERR_OK)
        rc = ledger_bring_up(l, e);
    if (rc == ERR_OK)
        rc = ledger_commit(l, e);
    if (rc != ERR_OK) {
        ledger_close(l);
        return rc;
    }
    db_stop_when(store_db(l->store), NULL);
    *out = l;
    return ERR_OK;
}

int ledger_save(struct ledger *l, struct err *e)
{
    l->is_closing = true;
    int rc = ledger_begin(l, e);
    return rc == ERR_OK ? ledger_commit(l, e) : rc;
}

void ledger_close(struct ledger *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; l->route && i < l->n_route; i++)
        course_close(&l->route[i].course);
    if (l->store)
        store_rollback(l->store);
    store_close(l->store);
    tracker_free(l->tracker);
    arena_free(&l->arena);
    free(l->route);
    free(l->result);
    free(l);
}
