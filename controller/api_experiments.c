/* Experiments for people: a running one from the law's committed state, an ended one from the
 * decision that ended it, and a forecast of one that was not started. */
#include "controller/api_experiments.h"

#include "controller/course.h"
#include "controller/experiment_request.h"
#include "controller/experiments/forecast.h"
#include "controller/store/revisions.h"

#include <math.h>

enum { FACT_ROWS = 1000, MOST_BYTES = 8 * 1024 * 1024 };

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static json_t *col_text(struct db_stmt *q, int i)
{
    struct str s = db_col_str(q, i);
    return json_str(s.p ? s : STR(""));
}

/* Lists. */

static json_t *list_item(struct db_stmt *q)
{
    json_t *o = json_object(), *payload = NULL;
    put(o, "id", col_text(q, 0));
    put(o, "route", col_text(q, 1));
    put(o, "outcome", col_text(q, 2));
    put(o, "started_us", json_integer(db_col_i64(q, 3)));
    put(o, "ended_us", json_integer(db_col_i64(q, 4)));
    put(o, "decision", json_integer(db_col_i64(q, 5)));
    put(o, "actor", col_text(q, 7));
    put(o, "reason", col_text(q, 8));
    if (json_parse(db_col_str(q, 6), 0, &payload, NULL) == ERR_OK) {
        put(o, "law", json_incref(json_object_get(payload, "law")));
        put(o, "revisions", json_incref(json_object_get(payload, "revisions")));
    }
    json_decref(payload);
    return o;
}

int api_experiment_list(struct store *s, struct str route, int64_t limit, json_t **out,
                        struct err *e)
{
    struct db_stmt *q;
    json_t *list = json_array();
    *out = NULL;
    int rc = store_statement(
        s,
        "SELECT * FROM (SELECT x.id,x.route,x.outcome,x.started_us,coalesce(x.ended_us,0),"
        "x.last_decision,v.payload,v.actor,v.reason,v.ord FROM events v JOIN experiments x "
        "ON x.id=json_extract(v.payload,'$.id') WHERE v.kind='experiment' AND v.route=? "
        "ORDER BY v.ord DESC LIMIT ?) ORDER BY ord",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, limit);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        json_array_append_new(list, list_item(q));
    if (rc != ERR_NOT_FOUND) {
        json_decref(list);
        return rc;
    }
    *out = json_object();
    put(*out, "experiments", list);
    return ERR_OK;
}

/* Reports. */

static int revision_of(void *ctx, uint64_t number, struct policy_revision *out, struct err *e)
{
    (void)ctx;
    (void)out;
    return err_set(e, ERR_BUG, "revision %llu is not needed to read a state",
                   (unsigned long long)number);
}

static int running_report(struct store *s, struct str route, json_t **out, struct err *e)
{
    struct course c;
    struct stored_state st;
    struct arena a;
    arena_init(&a, MOST_BYTES);
    course_init(&c, route, revision_of, NULL);
    int rc = store_get_state(s, route, &a, &st, e);
    if (rc == ERR_OK)
        rc = course_load(&c, &st, e);
    if (rc == ERR_OK)
        *out = policy_experiment(c.policy);
    course_close(&c);
    arena_free(&a);
    return rc;
}

static int ended_report(struct store *s, int64_t decision, json_t **out, struct err *e)
{
    struct db_stmt *q;
    json_t *v = NULL;
    int rc = store_statement(s, "SELECT json FROM decisions WHERE number=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, decision);
    rc = db_step(q, e);
    if (rc == ERR_OK)
        rc = json_parse(db_col_str(q, 0), 0, &v, e);
    db_reset(q);
    if (rc == ERR_OK)
        *out = json_incref(json_object_get(json_object_get(v, "detail"), "report"));
    json_decref(v);
    return rc;
}

/* What each arm serves, beside its numbers. */
static int add_params(struct store *s, json_t *report, struct err *e)
{
    size_t i;
    json_t *arm;
    int rc = ERR_OK;
    json_array_foreach(json_object_get(report, "arms"), i, arm)
    {
        struct arena a;
        struct revision r;
        arena_init(&a, MiB);
        uint64_t number = (uint64_t)json_integer_value(json_object_get(arm, "revision"));
        if (rc == ERR_OK)
            rc = store_get_revision(s, number, &a, &r, e);
        if (rc == ERR_OK)
            put(arm, "params", param_set_encode(&r.params));
        arena_free(&a);
    }
    return rc;
}

static int find_experiment(struct store *s, struct str id, struct arena *a, struct str *route,
                           bool *is_running, int64_t *decision, struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(s, "SELECT route,outcome,last_decision FROM experiments WHERE id=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, id);
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "there is no experiment '" STR_FMT "'",
                       STR_ARG(str_slice(id, 0, 40)));
    if (rc != ERR_OK)
        return rc;
    *route = arena_str(a, db_col_str(q, 0));
    *is_running = str_eq_c(db_col_str(q, 1), "running");
    *decision = db_col_i64(q, 2);
    db_reset(q);
    return ERR_OK;
}

int api_experiment_report(struct store *s, struct str id, json_t **out, struct err *e)
{
    struct arena a;
    struct str route = {0};
    bool is_running = false;
    int64_t decision = 0;
    arena_init(&a, MiB);
    *out = NULL;
    int rc = find_experiment(s, id, &a, &route, &is_running, &decision, e);
    if (rc == ERR_OK)
        rc = is_running ? running_report(s, route, out, e) : ended_report(s, decision, out, e);
    if (rc == ERR_OK && !*out)
        rc = err_set(e, ERR_NOT_FOUND, "'" STR_FMT "' was a canary: see its decisions",
                     STR_ARG(str_slice(id, 0, 40)));
    if (rc == ERR_OK)
        put(*out, "route", json_str(route));
    if (rc == ERR_OK)
        put(*out, "decision", json_integer(decision));
    if (rc == ERR_OK)
        rc = add_params(s, *out, e);
    arena_free(&a);
    return rc;
}

/* Forecasts. */

struct facts {
    double reward[FACT_ROWS];
    size_t n;
    double seconds; /* from the first request to the last */
};

static int read_facts(struct store *s, struct str route, struct facts *f, struct err *e)
{
    struct db_stmt *q;
    int64_t first = INT64_MAX, last = 0;
    int rc =
        store_statement(s,
                        "SELECT reward,created_us FROM route_rows WHERE route=? AND is_counted AND "
                        "reward IS NOT NULL ORDER BY row DESC LIMIT ?",
                        &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, FACT_ROWS);
    while (f->n < FACT_ROWS && (rc = db_step(q, e)) == ERR_OK) {
        f->reward[f->n++] = db_col_f64(q, 0);
        int64_t at_us = db_col_i64(q, 1);
        first = at_us < first ? at_us : first;
        last = at_us > last ? at_us : last;
    }
    db_reset(q);
    f->seconds = f->n ? (double)(last - first) / 1e6 : 0.0;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int champion_of(struct store *s, struct str route, struct arena *a, struct revision *out,
                       uint64_t *min_units, struct err *e)
{
    struct stored_state st;
    struct policy_settings settings;
    json_t *v = NULL;
    int rc = store_get_state(s, route, a, &st, e);
    if (rc == ERR_OK)
        rc = json_parse(st.settings, 0, &v, e);
    if (rc == ERR_OK)
        rc = policy_settings_decode(v, &settings, e);
    if (rc == ERR_OK)
        *min_units = settings.min_units;
    json_decref(v);
    return rc == ERR_OK ? store_get_revision(s, st.champion, a, out, e) : rc;
}

static void put_arms(json_t *o, const struct experiment_request *q)
{
    json_t *arms = json_array();
    for (uint32_t k = 0; k < q->n_arm; k++)
        json_array_append_new(arms, param_set_encode(&q->arm[k]));
    put(o, "arms", arms);
}

static void put_facts(json_t *o, const struct facts *f, double rate)
{
    double sum = 0.0, squares = 0.0, n = (double)f->n;
    for (size_t i = 0; i < f->n; i++)
        sum += f->reward[i];
    for (size_t i = 0; i < f->n; i++)
        squares += (f->reward[i] - sum / n) * (f->reward[i] - sum / n);
    put(o, "rewards", json_integer((json_int_t)f->n));
    put(o, "reward_mean", f->n ? json_num(sum / n) : json_null());
    put(o, "reward_sd", f->n ? json_num(sqrt(squares / n)) : json_null());
    put(o, "outputs_per_second", rate > 0.0 ? json_num(rate) : json_null());
}

static json_t *plan_answer(struct str route, const struct experiment_request *q,
                           const struct facts *f, uint64_t min_units)
{
    json_t *o = json_object(), *plan = json_object();
    double rate = f->n > 1 && f->seconds > 0.0 ? (double)(f->n - 1) / f->seconds : 0.0;
    struct forecast_facts facts = {f->reward, f->n, rate, min_units};
    struct forecast v;
    forecast_run(&q->plan, q->n_arm, &facts, &v);
    put(o, "route", json_str(route));
    experiment_plan_encode(&q->plan, plan);
    put(o, "plan", plan);
    put_arms(o, q);
    put_facts(o, f, rate);
    put(o, "runs", json_integer(v.n_runs));
    put(o, "decided", json_integer(v.n_decided));
    put(o, "outputs_median", json_num(v.outputs_median));
    put(o, "outputs_p90", json_num(v.outputs_p90));
    put(o, "seconds_median", json_num(v.seconds_median));
    put(o, "seconds_p90", json_num(v.seconds_p90));
    return o;
}

int api_experiment_plan(struct store *s, struct str route, const struct route_config *config,
                        const struct json_at *request, json_t **out, struct err *e)
{
    struct arena a;
    struct revision champion;
    uint64_t min_units = 0;
    arena_init(&a, MOST_BYTES);
    *out = NULL;
    struct experiment_request *q = arena_alloc(&a, sizeof *q);
    struct facts *f = arena_alloc(&a, sizeof *f);
    int rc = q && f ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a forecast");
    if (rc == ERR_OK)
        rc = champion_of(s, route, &a, &champion, &min_units, e);
    if (rc == ERR_OK)
        rc = experiment_request_read(request, config, &champion.params, &a, q, e);
    if (rc == ERR_OK) {
        *f = (struct facts){.n = 0};
        rc = read_facts(s, route, f, e);
    }
    if (rc == ERR_OK)
        *out = plan_answer(route, q, f, min_units);
    arena_free(&a);
    return rc;
}
