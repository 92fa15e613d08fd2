/* The rows between a decision's first and last, in slices of equal size, beside its numbers. Of a
 * very long range only the end is drawn row by row: what tipped the balance lies there. */
#include "controller/api_why.h"

#include "controller/api_read.h"

enum { SLICES = 60, DRAWN_ROWS = 20000 };

struct slice {
    int64_t first_row, last_row, at_us, n[2], unscored[2];
    double sum[2];
};

struct plot {
    struct slice slice;
    int64_t n, size, from, to; /* revisions compared */
    json_t *list;
};

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static json_t *arm_json(const struct slice *s, int arm)
{
    json_t *o = json_object();
    put(o, "n", json_integer(s->n[arm]));
    put(o, "unscored", json_integer(s->unscored[arm]));
    put(o, "mean", s->n[arm] ? json_num(s->sum[arm] / (double)s->n[arm]) : json_null());
    return o;
}

static void end_slice(struct plot *p)
{
    json_t *o = json_object();
    if (p->slice.first_row == 0) {
        json_decref(o);
        return;
    }
    put(o, "first_row", json_integer(p->slice.first_row));
    put(o, "last_row", json_integer(p->slice.last_row));
    put(o, "at_us", json_integer(p->slice.at_us));
    put(o, "from", arm_json(&p->slice, 0));
    put(o, "to", arm_json(&p->slice, 1));
    json_array_append_new(p->list, o);
    p->slice = (struct slice){0};
}

static void add_row(struct plot *p, struct db_stmt *q)
{
    struct slice *s = &p->slice;
    int64_t row = db_col_i64(q, 0), revision = db_col_i64(q, 3);
    if (revision != p->from && revision != p->to)
        return;
    int arm = revision == p->to;
    if (s->first_row == 0)
        s->first_row = row;
    s->last_row = row;
    s->at_us = db_col_i64(q, 2);
    if (db_col_is_null(q, 1)) {
        s->unscored[arm]++;
    } else {
        s->n[arm]++;
        s->sum[arm] += db_col_f64(q, 1);
    }
    if (++p->n % p->size == 0)
        end_slice(p);
}

static int read_plot(struct store *s, struct str route, int64_t first, int64_t last, struct plot *p,
                     struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(s,
                        "SELECT * FROM (SELECT row,reward,committed_us,revision FROM "
                        "route_rows WHERE route=? AND row BETWEEN ? AND ? AND is_counted ORDER "
                        "BY row DESC LIMIT ?) ORDER BY row",
                        &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, first);
    db_bind_i64(q, 3, last);
    db_bind_i64(q, 4, DRAWN_ROWS);
    while ((rc = db_step(q, e)) == ERR_OK)
        add_row(p, q);
    end_slice(p);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int64_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int put_plot(struct store *s, const json_t *decision, json_t *out, struct err *e)
{
    json_t *rows = json_object();
    int64_t first = number_of(decision, "first_row"), last = number_of(decision, "last_row");
    int64_t length = last - first + 1 < DRAWN_ROWS ? last - first + 1 : DRAWN_ROWS;
    struct plot p = {.list = json_array(),
                     .size = length / SLICES + 1,
                     .from = number_of(decision, "from_revision"),
                     .to = number_of(decision, "to_revision")};
    struct str route = str_from(json_string_value(json_object_get(decision, "route")));
    int rc = first > 0 && last >= first ? read_plot(s, route, first, last, &p, e) : ERR_OK;
    put(rows, "first", json_integer(first));
    put(rows, "last", json_integer(last));
    put(rows, "drawn", json_integer(p.n));
    put(out, "rows", rows);
    put(out, "plot", p.list);
    return rc;
}

static int put_event(struct store *s, int64_t number, json_t *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT d.ord,e.kind,e.actor,e.reason FROM decisions d LEFT JOIN "
                             "events e ON e.ord=d.ord WHERE d.number=?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, number);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    json_t *o = json_object();
    put(o, "ord", json_integer(db_col_i64(q, 0)));
    put(o, "kind", db_col_is_null(q, 1) ? json_string("row") : json_str(db_col_str(q, 1)));
    put(o, "actor", db_col_is_null(q, 2) ? json_null() : json_str(db_col_str(q, 2)));
    put(o, "reason", db_col_is_null(q, 3) ? json_null() : json_str(db_col_str(q, 3)));
    put(out, "cause", o);
    db_reset(q);
    return ERR_OK;
}

/* The neighbours' links, so that a reader sees the chain hold here without replaying all of it. */
static int put_chain(struct store *s, const json_t *decision, json_t *out, struct err *e)
{
    struct db_stmt *q;
    json_t *chain = json_object();
    json_t *detail = json_object_get(decision, "detail");
    const char *previous = json_string_value(json_object_get(decision, "previous_hash"));
    put(chain, "hash", json_incref(json_object_get(decision, "hash")));
    put(chain, "previous_hash", json_string(previous ? previous : ""));
    put(chain, "rows_hash", json_incref(json_object_get(detail, "rows_hash")));
    put(out, "chain", chain);
    int rc = store_statement(s, "SELECT hash FROM decisions WHERE number=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, number_of(decision, "number") - 1);
    rc = db_step(q, e);
    struct str before = rc == ERR_OK ? db_col_str(q, 0) : STR("");
    put(chain, "is_linked", json_boolean(previous && str_eq_c(before, previous)));
    db_reset(q);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static json_t *engines_of(struct store *s, int64_t version, struct err *e)
{
    struct db_stmt *q;
    json_t *list = json_array();
    int rc = store_statement(s, "SELECT engine,at_us FROM applied WHERE version=? ORDER BY at_us",
                             &q, e);
    if (rc != ERR_OK)
        return list;
    db_bind_i64(q, 1, version);
    while (db_step(q, e) == ERR_OK)
        json_array_append_new(list, json_pack("{s:o, s:I}", "engine", json_str(db_col_str(q, 0)),
                                              "at_us", (json_int_t)db_col_i64(q, 1)));
    db_reset(q);
    return list;
}

/* The version of the desired state that the decision's batch made, and who applied it when; null
 * where it changed nothing for engines, or was made before this was kept. */
static int put_desired(struct store *s, int64_t number, json_t *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT version,at_us FROM desired_versions WHERE last_decision>=?1 "
                             "AND first_decision<=?1 ORDER BY last_decision LIMIT 1",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, number);
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND) {
        put(out, "desired", json_null());
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return rc;
    json_t *o = json_object();
    int64_t version = db_col_i64(q, 0);
    put(o, "version", json_integer(version));
    put(o, "at_us", json_integer(db_col_i64(q, 1)));
    db_reset(q);
    put(o, "engines", engines_of(s, version, e));
    put(out, "desired", o);
    return ERR_OK;
}

int api_read_why(struct store *s, int64_t number, json_t **out, struct err *e)
{
    json_t *decision = NULL;
    *out = NULL;
    int rc = api_read_decision(s, number, &decision, e);
    if (rc != ERR_OK)
        return rc;
    json_t *o = json_object();
    put(o, "decision", decision);
    rc = put_plot(s, decision, o, e);
    if (rc == ERR_OK)
        rc = put_event(s, number, o, e);
    if (rc == ERR_OK)
        rc = put_chain(s, decision, o, e);
    if (rc == ERR_OK)
        rc = put_desired(s, number, o, e);
    if (rc != ERR_OK) {
        json_decref(o);
        return rc;
    }
    *out = o;
    return ERR_OK;
}
