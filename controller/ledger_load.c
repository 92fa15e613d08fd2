/* Restoring the laws and first start.
 *
 * A law's state is read from its row; when that cannot be used (another build, damage) it is made
 * again by feeding every committed row and event, which gives the same state. Writer thread. */
#include "controller/ledger_load.h"

#include "common/hash.h"
#include "common/log.h"
#include "controller/kill_switch.h"
#include "controller/law_version.h"
#include "controller/notices.h"
#include "controller/policies/state_read.h"

#include <stdio.h>
#include <string.h>

#define TALLY_MISS 0.05 /* of the interval that people see */

static int revision_of(void *ctx, uint64_t number, struct policy_revision *out, struct err *e)
{
    struct ledger *l = ctx;
    struct arena a;
    struct revision r;
    arena_init(&a, MiB);
    int rc = store_get_revision(l->store, number, &a, &r, e);
    if (rc == ERR_OK)
        *out = course_revision(&r);
    arena_free(&a);
    return rc;
}

/* Feeding again, without writing: decisions are there already. */

struct refeed {
    struct course *course;
    struct arena arena;
    struct course_result *result;
};

static int refeed_row(const struct scored_row *row, void *ctx, struct err *e)
{
    struct refeed *f = ctx;
    arena_reset(&f->arena);
    return course_feed_row(f->course, row, &f->arena, f->result, e);
}

static int refeed_event(const struct stored_event *ev, void *ctx, struct err *e)
{
    struct refeed *f = ctx;
    arena_reset(&f->arena);
    return course_feed_event(f->course, ev, &f->arena, f->result, e);
}

static int catch_up(struct ledger *l, struct course *c, struct err *e)
{
    struct refeed f = {.course = c, .result = l->result};
    arena_init(&f.arena, 4 * MiB);
    int rc = store_walk_order(l->store, c->ord, refeed_row, refeed_event, &f, e);
    arena_free(&f.arena);
    return rc;
}

static int load_course(struct ledger *l, struct ledger_route *r, struct arena *a, struct err *e)
{
    struct course *c = &r->course;
    struct stored_state st;
    struct err why = {0};
    int rc = store_law_from(l->store, str_from(c->route), &c->law_from, e);
    if (rc == ERR_OK)
        rc = store_get_state(l->store, str_from(c->route), a, &st, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK && l->law_fit == LAW_OTHER) {
        c->law_from = UINT64_MAX; /* until law_version_mark has said where */
        r->is_unsaved = r->must_save = true;
        return catch_up(l, c, e);
    }
    bool is_usable = rc == ERR_OK && l->law_fit != LAW_AGAIN;
    if (rc == ERR_OK && !is_usable)
        err_set(&why, ERR_CONFLICT, "another version made it; the same decisions follow anew");
    if (is_usable)
        is_usable = course_load(c, &st, &why) == ERR_OK;
    if (rc == ERR_OK && !is_usable) {
        log_event(LOG_WARN, "law.rebuild", "route=%s why=\"%s\"", c->route, why.msg);
        c->ord = 0;
        c->rows_hash[0] = 0;
    }
    uint64_t stored_ord = c->ord; /* 0 = what is stored is not what this build makes of the rows */
    rc = catch_up(l, c, e);
    r->is_unsaved = r->must_save = c->policy && c->ord != stored_ord;
    return rc;
}

static void tally_add(struct tally *t, const struct scored_row *row)
{
    uint64_t version = hash64(row->version.p, row->version.n, 0);
    enum era_verdict era = era_admit(&t->era, version);
    if (era == ERA_EXCLUDED)
        return;
    if (era == ERA_BEGINS) {
        t->reward = confseq_eb_start(TALLY_MISS);
        t->n_unscored = 0;
    }
    if (row->is_scored)
        confseq_eb_update(&t->reward, row->reward);
    else
        t->n_unscored++;
}

void ledger_tally(struct ledger_route *r, const struct scored_row *row)
{
    if (!str_eq_c(row->route, r->course.route) || row->choice != 0)
        return;
    for (int i = 0; i < 2; i++)
        if (r->arm[i].revision != 0 && r->arm[i].revision == row->revision)
            tally_add(&r->arm[i], row);
}

static int tally_row(const struct scored_row *row, void *ctx, struct err *e)
{
    (void)e;
    if (row->choice == 0)
        tally_add(ctx, row);
    return ERR_OK;
}

static const struct state_field TALLY_FIELDS[] = {STATE_SUB(struct tally, reward, CONFSEQ_FIELDS),
                                                  STATE_NUMBER(struct tally, n_unscored, STATE_U64),
                                                  STATE_SUB(struct tally, era, ERA_FIELDS),
                                                  STATE_END};

static int tally_put(struct ledger *l, struct ledger_route *r, const struct tally *t, struct err *e)
{
    struct buf text;
    if (t->revision == 0)
        return ERR_OK;
    buf_init(&text, 16 * KiB);
    state_write(TALLY_FIELDS, t, &text);
    int rc = buf_check(&text, "tally", e);
    if (rc == ERR_OK)
        rc = store_put_tally(l->store, str_from(r->course.route), t->revision, buf_str(&text), e);
    buf_free(&text);
    return rc;
}

int ledger_tally_save(struct ledger *l, struct ledger_route *r, struct err *e)
{
    int rc = tally_put(l, r, &r->arm[0], e);
    return rc == ERR_OK ? tally_put(l, r, &r->arm[1], e) : rc;
}

static int tally_get(struct ledger *l, struct str route, struct tally *t, struct err *e)
{
    struct arena a;
    struct str text;
    struct tally stored = {0};
    arena_init(&a, MiB);
    int rc = store_get_tally(l->store, route, t->revision, &a, &text, e);
    if (rc == ERR_OK)
        rc = state_read(TALLY_FIELDS, text, &stored, sizeof stored, e);
    stored.revision = t->revision;
    if (rc == ERR_OK)
        *t = stored;
    arena_free(&a);
    return rc;
}

/* What no tally was kept of: an arm of a database of an earlier version is added up once. */
static int tally_start(struct ledger *l, struct ledger_route *r, struct tally *t, uint64_t revision,
                       struct err *e)
{
    struct str route = str_from(r->course.route);
    bool has_rows = false;
    *t = (struct tally){.revision = revision, .reward = confseq_eb_start(TALLY_MISS)};
    if (revision == 0)
        return ERR_OK;
    int rc = tally_get(l, route, t, e);
    if (rc != ERR_NOT_FOUND)
        return rc;
    rc = rollups_has(l->store, route, revision, &has_rows, e);
    return rc == ERR_OK && has_rows
               ? store_walk_revision(l->store, route, revision, tally_row, t, e)
               : rc;
}

/* An arm that is left may come back. */
static int tally_leave(struct ledger *l, struct ledger_route *r, const struct tally *t,
                       const struct policy_view *now, struct err *e)
{
    bool stays = t->revision == now->champion || t->revision == now->challenger;
    return stays ? ERR_OK : tally_put(l, r, t, e);
}

int ledger_tally_follow(struct ledger *l, struct ledger_route *r, struct err *e)
{
    struct policy_view v;
    policy_view(r->course.policy, &v);
    struct tally old[2] = {r->arm[0], r->arm[1]};
    const uint64_t want[2] = {v.champion, v.challenger};
    int rc = tally_leave(l, r, &old[0], &v, e);
    if (rc == ERR_OK)
        rc = tally_leave(l, r, &old[1], &v, e);
    for (int i = 0; rc == ERR_OK && i < 2; i++) {
        if (want[i] && want[i] == old[0].revision)
            r->arm[i] = old[0];
        else if (want[i] && want[i] == old[1].revision)
            r->arm[i] = old[1];
        else
            rc = tally_start(l, r, &r->arm[i], want[i], e);
    }
    return rc;
}

static int load_salt(struct ledger *l, struct ledger_route *r, struct arena *a, struct err *e)
{
    struct str key = arena_printf(a, "salt.%s", r->course.route), salt;
    if (!key.p)
        return err_set(e, ERR_NOMEM, "no memory for a salt");
    int rc = store_setting_get(l->store, key.p, a, &salt, e);
    if (rc == ERR_NOT_FOUND) {
        snprintf(r->salt, sizeof r->salt, "%016llx", (unsigned long long)rng_u64(&l->rng));
        return store_setting_put(l->store, key.p, str_from(r->salt), e);
    }
    if (rc == ERR_OK)
        snprintf(r->salt, sizeof r->salt, STR_FMT, STR_ARG(salt));
    return rc;
}

static int load_route(struct ledger *l, uint32_t i, struct arena *a, struct err *e)
{
    struct ledger_route *r = &l->route[i];
    course_close(&r->course);
    *r = (struct ledger_route){.config = (const struct route_config *)l->o.config->routes.item + i};
    course_init(&r->course, r->config->name, revision_of, l);
    int rc = load_salt(l, r, a, e);
    if (rc == ERR_OK)
        rc = load_course(l, r, a, e);
    if (rc == ERR_OK && r->course.policy)
        rc = ledger_tally_follow(l, r, e);
    return rc == ERR_OK ? rc : err_wrap(e, "route %s", r->course.route);
}

static int load_seq(struct str engine, uint64_t epoch, uint64_t seq, void *ctx, struct err *e)
{
    (void)engine;
    (void)epoch;
    (void)e;
    tracker_add(ctx, seq);
    return ERR_OK;
}

static int load_mark(struct str engine, uint64_t epoch, uint64_t seq, void *ctx, struct err *e)
{
    struct ledger *l = ctx;
    struct tracker_source *s = tracker_find(l->tracker, engine, epoch, true);
    if (!s)
        return ERR_OK;
    s->mark = seq;
    s->has_rows = true;
    int rc = store_walk_seqs(l->store, engine, epoch, seq, load_seq, s, e);
    s->is_changed = false;
    return rc;
}

static int load_marks(struct ledger *l, struct err *e)
{
    tracker_free(l->tracker);
    l->tracker = tracker_new();
    if (!l->tracker)
        return err_set(e, ERR_NOMEM, "no memory for commit marks");
    return store_walk_marks(l->store, load_mark, l, e);
}

static int load_desired(struct ledger *l, struct arena *a, struct err *e)
{
    struct str text;
    int64_t version = 0;
    l->desired_hash[0] = 0;
    int rc = store_setting_get(l->store, "desired_version", a, &text, e);
    if (rc == ERR_OK)
        rc = str_to_i64(text, &version, e);
    l->desired_version = (uint64_t)version;
    if (rc == ERR_OK)
        rc = store_setting_get(l->store, "desired_hash", a, &text, e);
    if (rc == ERR_OK)
        snprintf(l->desired_hash, sizeof l->desired_hash, STR_FMT, STR_ARG(text));
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int load_counts(struct ledger *l, struct err *e)
{
    uint64_t totals[TOTAL_KINDS];
    int64_t n_decisions = 0;
    int rc = store_get_totals(l->store, totals, e);
    if (rc == ERR_OK)
        rc = store_number(l->store, "SELECT max(number) FROM decisions", &n_decisions, e);
    if (rc != ERR_OK)
        return rc;
    l->n_outputs = totals[TOTAL_OUTPUTS];
    l->n_scores = totals[TOTAL_SCORES];
    l->n_unscored = totals[TOTAL_UNSCORED];
    l->n_feedback = totals[TOTAL_FEEDBACK];
    l->n_decisions = (uint64_t)n_decisions;
    return ERR_OK;
}

/* The last time written: the clock may have been set back while nobody ran. */
static int load_time(struct ledger *l, struct err *e)
{
    int64_t last;
    int rc = store_number(l->store,
                          "SELECT max(coalesce((SELECT committed_us FROM scores ORDER BY row DESC "
                          "LIMIT 1),0),coalesce((SELECT at_us FROM events ORDER BY ord DESC LIMIT "
                          "1),0))",
                          &last, e);
    if (last > l->now_us) {
        l->now_us = last;
        l->now_at = clock_mono(&l->o.clock);
    }
    return rc;
}

int ledger_load(struct ledger *l, struct err *e)
{
    struct arena a;
    arena_init(&a, 256 * MiB);
    int rc = load_marks(l, e);
    if (rc == ERR_OK)
        rc = load_time(l, e);
    if (rc == ERR_OK)
        rc = load_counts(l, e);
    if (rc == ERR_OK)
        rc = load_desired(l, &a, e);
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++)
        rc = load_route(l, i, &a, e);
    if (rc == ERR_OK)
        rc = kill_switch_load(l, e);
    if (rc == ERR_OK)
        ledger_trials_follow(l);
    arena_free(&a);
    return rc;
}

/* First start and changed configuration. */

static int config_params(struct ledger *l, struct ledger_route *r, struct param_set *out,
                         struct err *e)
{
    json_t *v = NULL;
    *out = (struct param_set){0};
    if (r->config->params.n == 0)
        return ERR_OK;
    int rc = json_parse(r->config->params, 0, &v, e);
    if (rc == ERR_OK) {
        struct json_at at = json_root(v);
        rc = param_set_decode(&at, &l->arena, out, e);
        json_decref(v);
    }
    return rc == ERR_OK ? rc : err_wrap(e, "routes: %s: params", r->course.route);
}

static int first_revision(struct ledger *l, struct ledger_route *r, const struct param_set *params,
                          struct err *e)
{
    struct revision rev = {.route = str_from(r->course.route),
                           .params = *params,
                           .author = STR("config"),
                           .reason = STR("first start with this route"),
                           .created = {l->now_us}};
    int rc = store_add_revision(l->store, &rev, e);
    if (rc != ERR_OK)
        return rc;
    struct ledger_event ev = {.route = r,
                              .kind = "champion",
                              .actor = STR("config"),
                              .reason = rev.reason,
                              .payload =
                                  arena_printf(&l->arena, "{\"revision\":%llu,\"why\":\"config\"}",
                                               (unsigned long long)rev.number)};
    return ledger_event(l, &ev, NULL, e);
}

/* What the file says now against what it said when the route began: never applied silently over
 * what the loop has found since. */
static int compare_config(struct ledger *l, struct ledger_route *r, const struct param_set *params,
                          struct err *e)
{
    uint64_t number;
    struct revision from_config;
    char hash[65];
    int rc = store_last_revision_by(l->store, str_from(r->course.route), STR("config"), &number, e);
    if (rc != ERR_OK || number == 0)
        return rc;
    rc = store_get_revision(l->store, number, &l->arena, &from_config, e);
    if (rc != ERR_OK)
        return rc;
    param_set_hash(params, hash);
    if (strcmp(hash, from_config.hash) != 0) {
        log_event(LOG_WARN, "config.params_kept",
                  "route=%s why=\"the params in the configuration changed since revision %llu and "
                  "are not applied; use 'milepost params set' to try them\"",
                  r->course.route, (unsigned long long)number);
    }
    return ERR_OK;
}

static int settings_text(struct ledger *l, struct ledger_route *r, struct policy_settings *s,
                         struct str *out, struct err *e)
{
    struct buf b;
    buf_init(&b, MiB);
    int rc = policy_settings_from_route(r->config, s, e);
    json_t *v = rc == ERR_OK ? policy_settings_encode(s) : NULL;
    if (rc == ERR_OK)
        rc = v ? json_write(v, &b, e) : err_set(e, ERR_NOMEM, "no memory for settings");
    if (rc == ERR_OK)
        *out = arena_str(&l->arena, buf_str(&b));
    json_decref(v);
    buf_free(&b);
    return rc == ERR_OK ? rc : err_wrap(e, "routes: %s: policy", r->course.route);
}

/* Another law cannot go on with a trial of the old one: end it, then start from the champion. */
static int change_law(struct ledger *l, struct ledger_route *r, struct str settings, struct err *e)
{
    struct policy_view v;
    policy_view(r->course.policy, &v);
    struct ledger_event ev = {.route = r,
                              .kind = "stop",
                              .actor = STR("config"),
                              .reason = STR("the route's policy was changed")};
    int rc = v.challenger ? ledger_event(l, &ev, NULL, e) : ERR_OK;
    ev.kind = "experiment_stop";
    if (rc == ERR_OK && v.n_arm)
        rc = ledger_event(l, &ev, NULL, e);
    ev.kind = "settings";
    ev.payload = settings;
    if (rc == ERR_OK)
        rc = ledger_event(l, &ev, NULL, e);
    ev.kind = "champion";
    ev.payload = arena_printf(&l->arena, "{\"revision\":%llu,\"why\":\"policy\"}",
                              (unsigned long long)v.champion);
    return rc == ERR_OK ? ledger_event(l, &ev, NULL, e) : rc;
}

static int bring_up_settings(struct ledger *l, struct ledger_route *r, struct err *e)
{
    struct policy_settings want;
    struct stored_state now;
    struct str text;
    int rc = settings_text(l, r, &want, &text, e);
    if (rc != ERR_OK)
        return rc;
    struct ledger_event ev = {.route = r,
                              .kind = "settings",
                              .actor = STR("config"),
                              .reason = STR("the route's policy settings"),
                              .payload = text};
    if (!r->course.policy)
        return ledger_event(l, &ev, NULL, e);
    rc = course_save(&r->course, &l->arena, &now, e);
    if (rc != ERR_OK || str_eq(now.settings, text))
        return rc;
    log_event(LOG_INFO, "config.policy_changed", "route=%s", r->course.route);
    if (policy_settings_of(r->course.policy)->kind != want.kind)
        return change_law(l, r, text, e);
    return ledger_event(l, &ev, NULL, e);
}

int ledger_bring_up(struct ledger *l, struct err *e)
{
    int rc = notices_bring_up(l, e);
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct param_set params;
        struct policy_view v;
        rc = law_version_mark(l, r, e);
        if (rc == ERR_OK)
            rc = bring_up_settings(l, r, e);
        if (rc == ERR_OK)
            rc = law_version_restart(l, r, e);
        if (rc == ERR_OK)
            rc = config_params(l, r, &params, e);
        if (rc != ERR_OK)
            break;
        policy_view(r->course.policy, &v);
        rc = v.champion ? compare_config(l, r, &params, e) : first_revision(l, r, &params, e);
    }
    if (rc == ERR_OK)
        rc = law_version_keep(l, e);
    return rc == ERR_OK ? kill_switch_bring_up(l, e) : rc;
}
