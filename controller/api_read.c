/* Queries of the API. Every text in the answers is data: the page and the CLI escape it. */
#include "controller/api_read.h"

#include "common/json.h"
#include "common/json_members.h"
#include "controller/stats/confseq.h"
#include "controller/store/pack.h"

#include <math.h>
#include <string.h>

enum { WORST_AMONG = 1000, SERIES_ROWS = 4000, SERIES_BUCKETS = 50, TEXT_SHOWN = 4000 };

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static json_t *col_text(struct db_stmt *q, int i)
{
    struct str s = db_col_str(q, i);
    return json_str(s.p ? s : STR(""));
}

static json_t *col_int(struct db_stmt *q, int i)
{
    return json_integer(db_col_i64(q, i));
}

static json_t *col_json(struct db_stmt *q, int i)
{
    json_t *v = NULL;
    if (json_parse(db_col_str(q, i), JSON_ANY_VALUE, &v, NULL) != ERR_OK)
        return json_null();
    return v;
}

/* {"name": list}, taking the list. */
static int wrap(const char *name, json_t *list, int rc, json_t **out, struct err *e)
{
    *out = rc == ERR_OK ? json_object() : NULL;
    if (rc == ERR_OK && (!*out || json_object_set_new(*out, name, list) != 0))
        return err_set(e, ERR_NOMEM, "no memory for an answer");
    if (rc != ERR_OK)
        json_decref(list);
    return rc;
}

static int end_of(int rc)
{
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int api_read_revisions(struct store *s, struct str route, int64_t limit, json_t **out,
                       struct err *e)
{
    struct db_stmt *q;
    json_t *list = json_array();
    int rc = store_statement(
        s,
        "SELECT json,quarantined,number=champion,number=challenger FROM (SELECT r.json, r.number, "
        "EXISTS(SELECT 1 "
        "FROM quarantine x WHERE x.route=r.route AND x.hash=r.hash) AS quarantined, "
        "(SELECT champion FROM policy_state p WHERE p.route=r.route) AS champion, "
        "(SELECT challenger FROM policy_state p WHERE p.route=r.route) AS challenger "
        "FROM revisions r WHERE r.route=? ORDER BY r.number DESC LIMIT ?) ORDER BY number",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, limit);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK) {
        json_t *v = col_json(q, 0);
        put(v, "is_quarantined", json_boolean(db_col_i64(q, 1) != 0));
        put(v, "is_champion", json_boolean(db_col_i64(q, 2) != 0));
        put(v, "is_challenger", json_boolean(db_col_i64(q, 3) != 0));
        json_array_append_new(list, v);
    }
    return wrap("revisions", list, end_of(rc), out, e);
}

int api_read_decisions(struct store *s, struct str route, int64_t after, int64_t limit,
                       json_t **out, struct err *e)
{
    struct db_stmt *q;
    json_t *list = json_array();
    int rc = store_statement(s,
                             after < 0 ? "SELECT json FROM (SELECT json,number FROM decisions "
                                         "WHERE route=?1 ORDER BY number DESC LIMIT ?2) ORDER BY "
                                         "number"
                                       : "SELECT json FROM decisions WHERE route=?1 AND number>?3 "
                                         "ORDER BY number LIMIT ?2",
                             &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, limit);
        if (after >= 0)
            db_bind_i64(q, 3, after);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        json_array_append_new(list, col_json(q, 0));
    return wrap("decisions", list, end_of(rc), out, e);
}

int api_read_decision(struct store *s, int64_t number, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = NULL;
    int rc = store_statement(s, "SELECT json FROM decisions WHERE number=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, number);
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "there is no decision %lld", (long long)number);
    if (rc != ERR_OK)
        return rc;
    *out = col_json(q, 0);
    db_reset(q);
    return ERR_OK;
}

/* What a client sent and got, from the record as it was received; cut for display. */
/* The last message's content, or the prompt. */
static void put_prompt(json_t *o, struct str messages, struct str prompt)
{
    json_t *v = NULL;
    struct str text = {0};
    if (json_parse(messages.n ? messages : prompt, JSON_ANY_VALUE, &v, NULL) != ERR_OK)
        return;
    json_t *last = json_array_get(v, json_array_size(v) - 1);
    struct json_at root = json_root(last ? last : v), content = json_field(&root, "content");
    if (json_get_str(last ? &content : &root, &text, NULL) == ERR_OK)
        put(o, "prompt", json_str(str_slice(text, 0, TEXT_SHOWN)));
    json_decref(v);
}

/* Only what is shown is read: most of a record are token ids. */
static void put_text(json_t *o, struct str raw)
{
    struct json_members all;
    struct json_member m;
    struct str found[3] = {{0}};
    static const char *const KEYS[] = {"messages", "prompt", "text"};
    json_t *text = NULL;
    int rc = json_members_open(&all, raw, NULL);
    while (rc == ERR_OK && (rc = json_members_next(&all, &m, NULL)) == ERR_OK)
        for (int i = 0; i < 3; i++)
            if (str_eq_c(m.key, KEYS[i]))
                found[i] = m.value;
    if (rc != ERR_NOT_FOUND)
        return;
    struct str shown = {0};
    if (json_parse(found[2], JSON_ANY_VALUE, &text, NULL) == ERR_OK) {
        struct json_at at = json_root(text);
        if (json_get_str(&at, &shown, NULL) == ERR_OK)
            put(o, "text", json_str(str_slice(shown, 0, TEXT_SHOWN)));
    }
    json_decref(text);
    put_prompt(o, found[0], found[1]);
}

static json_t *score_json(struct db_stmt *q, struct unpacker *u)
{
    struct str raw = {0};
    json_t *o = json_object();
    put(o, "row", col_int(q, 0));
    put(o, "engine", col_text(q, 1));
    put(o, "epoch", col_int(q, 2));
    put(o, "seq", col_int(q, 3));
    put(o, "request_id", col_text(q, 4));
    put(o, "choice", col_int(q, 5));
    put(o, "route", col_text(q, 6));
    put(o, "revision", col_int(q, 7));
    put(o, "arm", col_text(q, 8));
    put(o, "reward", db_col_is_null(q, 9) ? json_null() : json_num(db_col_f64(q, 9)));
    put(o, "reason", col_text(q, 10));
    put(o, "checks", col_json(q, 11));
    put(o, "finish_reason", col_text(q, 12));
    put(o, "created_us", col_int(q, 13));
    if (unpacker_read(u, q, 14, &raw, NULL) == ERR_OK && raw.p)
        put_text(o, raw);
    return o;
}

#define SCORE_COLUMNS                                                                              \
    "s.row,o.engine,o.epoch,o.seq,o.request_id,o.choice,o.route,o.revision,o.arm,s.reward,"        \
    "s.reason,s.checks,o.finish_reason,o.created_us,"                                              \
    "(SELECT packed FROM bodies WHERE output=o.id) "

int api_read_scores(struct store *s, struct str route, bool worst, int64_t limit, json_t **out,
                    struct err *e)
{
    struct db_stmt *q;
    struct unpacker *u = unpacker_new();
    if (!u)
        return err_set(e, ERR_NOMEM, "no memory for an answer");
    json_t *list = json_array();
    int rc = store_statement(
        s,
        worst
            ? "SELECT " SCORE_COLUMNS "FROM scores s JOIN outputs o ON o.id=s.output WHERE s.row "
              "IN (SELECT row FROM (SELECT row,reward FROM route_rows WHERE route=?1 ORDER BY row "
              "DESC LIMIT ?3) ORDER BY reward IS NULL, reward, row DESC LIMIT ?2) "
              "ORDER BY s.reward IS NULL, s.reward, s.row DESC"
            : "SELECT " SCORE_COLUMNS "FROM scores s JOIN outputs o ON o.id=s.output WHERE s.row "
              "IN (SELECT row FROM route_rows WHERE route=?1 ORDER BY row DESC LIMIT ?2) "
              "ORDER BY s.row",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, limit);
        if (worst)
            db_bind_i64(q, 3, WORST_AMONG);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        json_array_append_new(list, score_json(q, u));
    unpacker_free(u);
    return wrap("scores", list, end_of(rc), out, e);
}

static int revision_json(struct store *s, int64_t number, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = json_null();
    if (number == 0)
        return ERR_OK;
    int rc = store_statement(s, "SELECT json FROM revisions WHERE number=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, number);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = col_json(q, 0);
    db_reset(q);
    return ERR_OK;
}

/* What may be tuned, for forms: the table of schemas/params within the route's bounds. */
static json_t *knobs_json(const struct route_config *route)
{
    json_t *list = json_array();
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct param_info *info = param_info((enum param_id)i);
        struct bound_config b = route_config_bound(route, (enum param_id)i);
        json_t *o = json_object();
        put(o, "name", json_string(info->name));
        put(o, "is_integer", json_boolean(info->is_integer));
        put(o, "min", json_num(b.min));
        put(o, "max", json_num(b.max));
        put(o, "step", json_num(b.step));
        put(o, "help", json_string(info->help));
        json_array_append_new(list, o);
    }
    return list;
}

int api_read_params(struct store *s, struct str route, const struct route_config *config,
                    json_t **out, struct err *e)
{
    struct db_stmt *q;
    json_t *champion = NULL, *challenger = NULL;
    *out = NULL;
    int rc = store_statement(
        s, "SELECT champion,challenger,share,phase,experiment FROM policy_state WHERE route=?", &q,
        e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    int64_t number[2] = {db_col_i64(q, 0), db_col_i64(q, 1)};
    double share = db_col_f64(q, 2);
    json_t *o = json_object();
    put(o, "route", json_str(route));
    put(o, "state", col_text(q, 3));
    put(o, "experiment", number[1] ? col_text(q, 4) : json_string(""));
    put(o, "share", number[1] ? json_num(share) : json_null());
    db_reset(q);
    rc = revision_json(s, number[0], &champion, e);
    put(o, "champion", champion);
    if (rc == ERR_OK) {
        rc = revision_json(s, number[1], &challenger, e);
        put(o, "challenger", challenger);
    }
    put(o, "knobs", knobs_json(config));
    *out = o;
    return rc;
}

/* Series. */

struct bucket {
    int64_t first_row, last_row, at_us;
    uint64_t n[2];
    double sum[2];
};

struct series {
    struct bucket bucket;
    int64_t revision[2]; /* whose interval runs */
    struct confseq_eb interval[2];
    int64_t n_rows, size;
    json_t *list;
};

static json_t *arm_json(const struct series *x, int arm)
{
    const struct bucket *b = &x->bucket;
    if (b->n[arm] == 0)
        return json_null();
    struct interval ci = confseq_eb_interval(&x->interval[arm]);
    json_t *o = json_object();
    put(o, "revision", json_integer(x->revision[arm]));
    put(o, "n", json_integer((json_int_t)b->n[arm]));
    put(o, "mean", json_num(b->sum[arm] / (double)b->n[arm]));
    put(o, "running_mean", json_num(confseq_eb_mean(&x->interval[arm])));
    put(o, "lower", json_num(fmax(0.0, ci.lower)));
    put(o, "upper", json_num(fmin(1.0, ci.upper)));
    return o;
}

static void end_bucket(struct series *x)
{
    json_t *o = json_object();
    put(o, "first_row", json_integer(x->bucket.first_row));
    put(o, "last_row", json_integer(x->bucket.last_row));
    put(o, "at_us", json_integer(x->bucket.at_us));
    put(o, "champion", arm_json(x, 0));
    put(o, "challenger", arm_json(x, 1));
    json_array_append_new(x->list, o);
    x->bucket = (struct bucket){0};
}

static void add_row(struct series *x, struct db_stmt *q)
{
    int arm = str_eq_c(db_col_str(q, 3), "champion") ? 0 : 1;
    int64_t revision = db_col_i64(q, 4);
    double reward = db_col_f64(q, 1);
    if (x->revision[arm] != revision) {
        x->revision[arm] = revision;
        x->interval[arm] = confseq_eb_start(0.05);
    }
    confseq_eb_update(&x->interval[arm], reward);
    if (x->bucket.first_row == 0)
        x->bucket.first_row = db_col_i64(q, 0);
    x->bucket.last_row = db_col_i64(q, 0);
    x->bucket.at_us = db_col_i64(q, 2);
    x->bucket.n[arm]++;
    x->bucket.sum[arm] += reward;
    if (++x->n_rows % x->size == 0)
        end_bucket(x);
}

static int64_t rows_of(struct store *s, struct str route)
{
    struct db_stmt *q;
    int64_t n = 0;
    if (store_statement(
            s,
            "SELECT count(*) FROM (SELECT 1 FROM route_rows WHERE route=? AND reward IS "
            "NOT NULL ORDER BY row DESC LIMIT ?)",
            &q, NULL) != ERR_OK)
        return 0;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, SERIES_ROWS);
    if (db_step(q, NULL) == ERR_OK) {
        n = db_col_i64(q, 0);
        db_reset(q);
    }
    return n;
}

int api_read_series(struct store *s, struct str route, json_t **out, struct err *e)
{
    struct db_stmt *q;
    int64_t n = rows_of(s, route);
    struct series x = {.list = json_array(), .size = n / SERIES_BUCKETS + 1};
    int rc = store_statement(
        s,
        "SELECT * FROM (SELECT row,reward,committed_us,arm,revision FROM route_rows WHERE route=? "
        "AND reward IS NOT NULL ORDER BY row DESC LIMIT ?) ORDER BY row",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, SERIES_ROWS);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        add_row(&x, q);
    if (x.bucket.first_row)
        end_bucket(&x);
    return wrap("rewards", x.list, end_of(rc), out, e);
}
