/* Building the status. Everything in it is committed: it is put after each commit. */
#include "controller/board.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BOARD_BYTES = 8 * 1024 * 1024, TREND_ROUTES = CONTROL_MAX_ROUTES };

struct trend { /* of a route: a ring of points, oldest first when read */
    json_t *points;
};

struct board {
    pthread_mutex_t lock;
    struct buf status, trend; /* under the lock */
    struct trend route[TREND_ROUTES];
    int64_t trend_us;
};

struct board *board_new(void)
{
    struct board *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    pthread_mutex_init(&b->lock, NULL);
    buf_init(&b->status, BOARD_BYTES);
    buf_init(&b->trend, BOARD_BYTES);
    return b;
}

void board_free(struct board *b)
{
    if (!b)
        return;
    for (int i = 0; i < TREND_ROUTES; i++)
        json_decref(b->route[i].points);
    buf_free(&b->status);
    buf_free(&b->trend);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void take(struct board *b, const struct buf *from, struct buf *out)
{
    pthread_mutex_lock(&b->lock);
    buf_put_str(out, buf_str(from));
    pthread_mutex_unlock(&b->lock);
}

bool board_is_ready(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    bool is_ready = b->status.n > 0;
    pthread_mutex_unlock(&b->lock);
    return is_ready;
}

void board_status(struct board *b, struct buf *out)
{
    take(b, &b->status, out);
}

void board_trend(struct board *b, struct buf *out)
{
    take(b, &b->trend, out);
}

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static void put_u64(json_t *o, const char *key, uint64_t v)
{
    put(o, key, json_integer((json_int_t)v));
}

static void put_text(json_t *o, const char *key, const char *v)
{
    put(o, key, json_str(str_from(v)));
}

static json_t *engine_json(const struct engine_peer *p, const struct board_facts *f)
{
    json_t *o = json_object();
    uint64_t age_ms = mono_since_us(p->seen, f->now) / 1000;
    put_text(o, "engine", p->engine);
    put_text(o, "model", p->model);
    put_text(o, "version", p->version);
    put_u64(o, "epoch", p->beat.epoch);
    put_u64(o, "next_seq", p->beat.next_seq);
    put_u64(o, "oldest_seq", p->beat.oldest_seq);
    put_u64(o, "desired_version", p->beat.desired_version);
    put_u64(o, "running", p->beat.running);
    put_u64(o, "waiting", p->beat.waiting);
    put_u64(o, "outbox_rows", p->beat.outbox_rows);
    put_u64(o, "outbox_dropped", p->beat.outbox_dropped);
    put(o, "kv_usage", json_num(p->beat.kv_usage));
    put(o, "tokens_per_second", json_num(p->beat.tokens_per_second));
    put_u64(o, "age_ms", age_ms);
    put(o, "is_stale", json_boolean((int64_t)age_ms > f->stale_ms));
    return o;
}

static json_t *params_json(const struct board_facts *f, uint64_t revision)
{
    struct arena a;
    struct revision r;
    json_t *v = NULL;
    arena_init(&a, MiB);
    if (store_get_revision(f->store, revision, &a, &r, NULL) == ERR_OK)
        v = param_set_encode(&r.params);
    arena_free(&a);
    return v ? v : json_null();
}

static json_t *arm_json(const struct board_facts *f, const struct tally *t, double share)
{
    if (t->revision == 0)
        return json_null();
    json_t *o = json_object();
    struct interval ci = confseq_eb_interval(&t->reward);
    bool is_empty = t->reward.n == 0;
    put_u64(o, "revision", t->revision);
    put(o, "share", json_num(share));
    put_u64(o, "n", t->reward.n);
    put_u64(o, "unscored", t->n_unscored);
    put(o, "mean", is_empty ? json_null() : json_num(confseq_eb_mean(&t->reward)));
    put(o, "lower", is_empty ? json_null() : json_num(fmax(0.0, ci.lower)));
    put(o, "upper", is_empty ? json_null() : json_num(fmin(1.0, ci.upper)));
    put(o, "params", params_json(f, t->revision));
    return o;
}

static json_t *tests_json(const struct policy_view *v)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->n_test; i++) {
        json_t *o = json_object();
        put_text(o, "test", v->test[i].name);
        put(o, "log_e", json_num(v->test[i].log_e));
        put(o, "log_threshold", json_num(v->test[i].log_threshold));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *drift_json(const struct policy_view *v)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->n_drift; i++) {
        json_t *o = json_object();
        put_text(o, "stratum", v->drift[i].stratum);
        put(o, "is_frozen", json_boolean(v->drift[i].is_frozen));
        put(o, "is_alarmed", json_boolean(v->drift[i].is_alarmed));
        put(o, "m0", json_num(v->drift[i].m0));
        put(o, "log_statistic", json_num(v->drift[i].log_m));
        put(o, "log_threshold", json_num(v->drift[i].log_threshold));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *ramp_json(const struct policy_settings *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_ramp; i++)
        json_array_append_new(list, json_num(s->ramp[i]));
    return list;
}

static json_t *effect_json(double v)
{
    return isnan(v) ? json_null() : json_num(v);
}

/* Of the running experiment, each with the share that engines give it now. */
static json_t *arms_json(const struct policy_view *v)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < v->n_arm; k++) {
        const struct policy_effect_view *x = &v->arm_effect[k];
        json_t *o = json_object();
        put(o, "name", k ? json_sprintf("arm-%u", k) : json_string("champion"));
        put_u64(o, "revision", v->arm_revision[k]);
        put(o, "share", json_num(v->arm_share[k]));
        put(o, "effect", k ? effect_json(x->effect) : json_null());
        put(o, "effect_lower", k ? effect_json(x->lower) : json_null());
        put(o, "effect_upper", k ? effect_json(x->upper) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static double champion_share(const struct policy_view *v)
{
    if (v->n_arm)
        return v->arm_share[0];
    return v->challenger ? 1.0 - v->share : 1.0;
}

static json_t *route_json(const struct board_facts *f, const struct ledger_route *r)
{
    struct policy_view v;
    json_t *o = json_object();
    policy_view(r->course.policy, &v);
    put_text(o, "route", r->course.route);
    put_text(o, "policy", policy_law_name(policy_settings_of(r->course.policy)->kind));
    put_text(o, "state", v.phase);
    put(o, "is_paused", json_boolean(strcmp(v.phase, "safe") == 0));
    put_text(o, "experiment", v.challenger || v.n_arm ? v.experiment : "");
    put(o, "champion", arm_json(f, &r->arm[0], champion_share(&v)));
    put(o, "challenger", arm_json(f, &r->arm[1], v.share));
    put(o, "ramp", ramp_json(policy_settings_of(r->course.policy)));
    put(o, "tests", tests_json(&v));
    put(o, "arms", arms_json(&v));
    put(o, "drift", drift_json(&v));
    put_u64(o, "n_blocks", v.numbers.n_blocks);
    put(o, "effect", v.challenger ? json_num(v.numbers.effect) : json_null());
    put(o, "effect_lower", v.challenger ? json_num(v.numbers.effect_lower) : json_null());
    put(o, "effect_upper", v.challenger ? json_num(v.numbers.effect_upper) : json_null());
    put_u64(o, "held", v.n_held);
    put_u64(o, "late", v.n_late);
    put_u64(o, "missing", v.n_missing);
    return o;
}

static json_t *status_json(const struct board_facts *f)
{
    const struct ledger *l = f->ledger;
    json_t *o = json_object(), *engines = json_array(), *routes = json_array();
    put_text(o, "version", f->version);
    put_u64(o, "desired_version", l->desired_version);
    put_u64(o, "outputs", l->n_outputs);
    put_u64(o, "scores", l->n_scores);
    put_u64(o, "unscored", l->n_unscored);
    put_u64(o, "feedback", l->n_feedback);
    put_u64(o, "decisions", l->n_decisions);
    put_text(o, "database", f->database);
    put_u64(o, "at_us", (uint64_t)f->now_us);
    for (uint32_t i = 0; i < f->engines->n_peer; i++)
        json_array_append_new(engines, engine_json(&f->engines->peer[i], f));
    for (uint32_t i = 0; i < l->n_route; i++)
        json_array_append_new(routes, route_json(f, &l->route[i]));
    put(o, "engines", engines);
    put(o, "routes", routes);
    put(o, "kill_switch",
        json_pack("{s:b, s:I, s:s, s:s}", "is_on", l->kill_switch.is_on, "since_us",
                  (json_int_t)l->kill_switch.since_us, "actor", l->kill_switch.actor, "reason",
                  l->kill_switch.reason));
    return o;
}

/* One point of a route's running tests. */
static void add_point(struct trend *t, const struct ledger_route *r, int64_t now_us)
{
    struct policy_view v;
    policy_view(r->course.policy, &v);
    if (!t->points)
        t->points = json_array();
    if (!v.challenger && !v.n_arm)
        return;
    json_t *o = json_object(), *tests = json_object(), *needed = json_object();
    put_u64(o, "at_us", (uint64_t)now_us);
    put_text(o, "experiment", v.experiment);
    for (uint32_t i = 0; i < v.n_test; i++) {
        put(tests, v.test[i].name, json_num(v.test[i].log_e));
        put(needed, v.test[i].name, json_num(v.test[i].log_threshold));
    }
    put(o, "tests", tests);
    put(o, "needed", needed);
    json_array_append_new(t->points, o);
    if (json_array_size(t->points) > BOARD_TREND_POINTS)
        json_array_remove(t->points, 0);
}

static json_t *trend_json(struct board *b, const struct board_facts *f)
{
    json_t *o = json_object();
    bool is_due = f->now_us - b->trend_us >= 1000000;
    for (uint32_t i = 0; i < f->ledger->n_route && i < TREND_ROUTES; i++) {
        const struct ledger_route *r = &f->ledger->route[i];
        if (is_due)
            add_point(&b->route[i], r, f->now_us);
        if (b->route[i].points)
            json_object_set(o, r->course.route, b->route[i].points);
    }
    if (is_due)
        b->trend_us = f->now_us;
    return o;
}

static int show(struct board *b, struct buf *shown, json_t *v, struct err *e)
{
    struct buf text;
    buf_init(&text, BOARD_BYTES);
    int rc = v ? json_write(v, &text, e) : err_set(e, ERR_NOMEM, "no memory for the status");
    json_decref(v);
    if (rc == ERR_OK) {
        pthread_mutex_lock(&b->lock);
        struct buf old = *shown;
        *shown = text;
        text = old;
        pthread_mutex_unlock(&b->lock);
    }
    buf_free(&text);
    return rc;
}

int board_put(struct board *b, const struct board_facts *f, struct err *e)
{
    int rc = show(b, &b->status, status_json(f), e);
    return rc == ERR_OK ? show(b, &b->trend, trend_json(b, f), e) : rc;
}
