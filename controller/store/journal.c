/* The journal: what was fed, what was decided, and the state after it. Writer thread; the walks
 * also on readers. */
#include "controller/store/journal.h"

#include <string.h>

int store_add_event(struct store *s, struct stored_event *ev, struct err *e)
{
    struct db_stmt *q;
    int rc = store_next_ord(s, &ev->ord, e);
    if (rc == ERR_OK) {
        rc = store_statement(s,
                             "INSERT INTO events(ord,route,kind,at_us,actor,reason,payload) "
                             "VALUES(?,?,?,?,?,?,?)",
                             &q, e);
    }
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)ev->ord);
    db_bind_str(q, 2, ev->route);
    db_bind_str(q, 3, ev->kind);
    db_bind_i64(q, 4, ev->at_us);
    db_bind_str(q, 5, ev->actor.p ? ev->actor : STR(""));
    db_bind_str(q, 6, ev->reason.p ? ev->reason : STR(""));
    db_bind_str(q, 7, ev->payload.p ? ev->payload : STR("{}"));
    return db_run(q, NULL, e);
}

int store_walk_events(struct store *s, uint64_t after, stored_event_fn *fn, void *ctx,
                      struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT ord,route,kind,at_us,actor,reason,payload FROM events "
                             "WHERE ord>? ORDER BY ord",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)after);
    while ((rc = db_step(q, e)) == ERR_OK) {
        struct stored_event ev = {.ord = (uint64_t)db_col_i64(q, 0),
                                  .route = db_col_str(q, 1),
                                  .kind = db_col_str(q, 2),
                                  .at_us = db_col_i64(q, 3),
                                  .actor = db_col_str(q, 4),
                                  .reason = db_col_str(q, 5),
                                  .payload = db_col_str(q, 6)};
        rc = fn(&ev, ctx, e);
        if (rc != ERR_OK) {
            db_reset(q);
            return rc;
        }
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

struct merge {
    struct store *store;
    uint64_t last;
    scored_row_fn *row_fn;
    stored_event_fn *event_fn;
    void *ctx;
};

/* The rows that stand before the event, then the event. */
static int merge_event(const struct stored_event *ev, void *ctx, struct err *e)
{
    struct merge *m = ctx;
    int rc = store_walk_rows(m->store, m->last, ev->ord, m->row_fn, m->ctx, e);
    m->last = ev->ord;
    return rc == ERR_OK ? m->event_fn(ev, m->ctx, e) : rc;
}

int store_walk_order(struct store *s, uint64_t after, scored_row_fn *row_fn,
                     stored_event_fn *event_fn, void *ctx, struct err *e)
{
    struct merge m = {s, after, row_fn, event_fn, ctx};
    int rc = store_walk_events(s, after, merge_event, &m, e);
    return rc == ERR_OK ? store_walk_rows(s, m.last, UINT64_MAX, row_fn, ctx, e) : rc;
}

int store_last_decision(struct store *s, uint64_t *number, char hash[65], struct err *e)
{
    struct db_stmt *q;
    *number = 0;
    memset(hash, 0, 65);
    int rc =
        store_statement(s, "SELECT number,hash FROM decisions ORDER BY number DESC LIMIT 1", &q, e);
    if (rc == ERR_OK)
        rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    struct str h = db_col_str(q, 1);
    *number = (uint64_t)db_col_i64(q, 0);
    memcpy(hash, h.p, h.n < 64 ? h.n : 64);
    db_reset(q);
    return ERR_OK;
}

static int insert_decision(struct store *s, const struct decision *d, uint64_t ord, struct str json,
                           struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(s,
                        "INSERT INTO decisions(number,ord,route,action,actor,reason,experiment,"
                        "from_revision,to_revision,test,log_e,log_threshold,at_us,"
                        "previous_hash,hash,json) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                        &q, e);
    if (rc != ERR_OK)
        return rc;
    const struct str texts[] = {d->route,
                                d->action,
                                d->actor,
                                d->reason,
                                d->experiment,
                                d->test,
                                str_from(d->previous_hash),
                                str_from(d->hash),
                                json};
    static const int TEXT_AT[] = {3, 4, 5, 6, 7, 10, 14, 15, 16};
    for (size_t i = 0; i < sizeof TEXT_AT / sizeof *TEXT_AT; i++)
        db_bind_str(q, TEXT_AT[i], texts[i].p ? texts[i] : STR(""));
    db_bind_i64(q, 1, (int64_t)d->number);
    db_bind_i64(q, 2, (int64_t)ord);
    db_bind_i64(q, 8, (int64_t)d->from_revision);
    db_bind_i64(q, 9, (int64_t)d->to_revision);
    db_bind_f64(q, 11, d->log_e);
    db_bind_f64(q, 12, d->log_threshold);
    db_bind_i64(q, 13, d->at.us);
    return db_run(q, NULL, e);
}

int store_add_decision(struct store *s, struct decision *d, uint64_t ord, struct err *e)
{
    struct buf text;
    json_t *v = NULL;
    int rc;
    buf_init(&text, MiB);
    TRY(store_last_decision(s, &d->number, d->previous_hash, e));
    d->number++;
    TRY(decision_seal(d, e));
    v = decision_encode(d);
    if (!v)
        TRY(err_set(e, ERR_NOMEM, "no memory for decision %llu", (unsigned long long)d->number));
    TRY(json_write(v, &text, e));
    TRY(insert_decision(s, d, ord, buf_str(&text), e));
out:
    json_decref(v);
    buf_free(&text);
    return rc;
}

int store_walk_decisions(struct store *s, uint64_t after, stored_decision_fn *fn, void *ctx,
                         struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s, "SELECT number,ord,json FROM decisions WHERE number>? ORDER BY number", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)after);
    while ((rc = db_step(q, e)) == ERR_OK) {
        rc = fn((uint64_t)db_col_i64(q, 0), (uint64_t)db_col_i64(q, 1), db_col_str(q, 2), ctx, e);
        if (rc != ERR_OK) {
            db_reset(q);
            return rc;
        }
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int store_put_state(struct store *s, const struct stored_state *st, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR REPLACE INTO policy_state(route,ord,law,phase,experiment,"
                             "champion,challenger,share,settings,state,rows_hash) "
                             "VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, st->route);
    db_bind_i64(q, 2, (int64_t)st->ord);
    db_bind_str(q, 3, st->law);
    db_bind_str(q, 4, st->phase);
    db_bind_str(q, 5, st->experiment);
    db_bind_i64(q, 6, (int64_t)st->champion);
    db_bind_i64(q, 7, (int64_t)st->challenger);
    db_bind_f64(q, 8, st->share);
    db_bind_str(q, 9, st->settings);
    db_bind_str(q, 10, st->state);
    db_bind_str(q, 11, st->rows_hash);
    return db_run(q, NULL, e);
}

int store_get_state(struct store *s, struct str route, struct arena *a, struct stored_state *out,
                    struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT ord,law,phase,experiment,champion,challenger,share,settings,"
                             "state,rows_hash FROM policy_state WHERE route=?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct stored_state){.route = route,
                                 .ord = (uint64_t)db_col_i64(q, 0),
                                 .law = arena_str(a, db_col_str(q, 1)),
                                 .phase = arena_str(a, db_col_str(q, 2)),
                                 .experiment = arena_str(a, db_col_str(q, 3)),
                                 .champion = (uint64_t)db_col_i64(q, 4),
                                 .challenger = (uint64_t)db_col_i64(q, 5),
                                 .share = db_col_f64(q, 6),
                                 .settings = arena_str(a, db_col_str(q, 7)),
                                 .state = arena_str(a, db_col_str(q, 8)),
                                 .rows_hash = arena_str(a, db_col_str(q, 9))};
    db_reset(q);
    return out->state.p && out->settings.p ? ERR_OK
                                           : err_set(e, ERR_NOMEM, "no memory for a state");
}

int store_law_from(struct store *s, struct str route, uint64_t *out, struct err *e)
{
    struct db_stmt *q;
    *out = 0;
    int rc = store_statement(
        s, "SELECT coalesce(max(ord),0) FROM events WHERE kind='law' AND route=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    rc = db_step(q, e);
    if (rc == ERR_OK)
        *out = (uint64_t)db_col_i64(q, 0);
    db_reset(q);
    return rc;
}
