/* Commit marks survive restarts, so that an engine that comes back can forget what is safe here. */
#include "controller/store/marks.h"

int store_put_mark(struct store *s, struct str engine, uint64_t epoch, uint64_t seq, struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(s, "INSERT OR REPLACE INTO marks(engine,epoch,seq) VALUES(?,?,?)", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, engine);
    db_bind_i64(q, 2, (int64_t)epoch);
    db_bind_i64(q, 3, (int64_t)seq);
    return db_run(q, NULL, e);
}

static int walk(struct db_stmt *q, stored_mark_fn *fn, void *ctx, struct err *e)
{
    int rc;
    while ((rc = db_step(q, e)) == ERR_OK) {
        rc = fn(db_col_str(q, 0), (uint64_t)db_col_i64(q, 1), (uint64_t)db_col_i64(q, 2), ctx, e);
        if (rc != ERR_OK) {
            db_reset(q);
            return rc;
        }
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int store_walk_marks(struct store *s, stored_mark_fn *fn, void *ctx, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT engine,epoch,seq FROM marks", &q, e);
    return rc == ERR_OK ? walk(q, fn, ctx, e) : rc;
}

int store_walk_seqs(struct store *s, struct str engine, uint64_t epoch, uint64_t after,
                    stored_mark_fn *fn, void *ctx, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "SELECT engine,epoch,seq FROM outputs WHERE engine=?1 AND epoch=?2 AND seq>?3 UNION "
        "SELECT engine,epoch,seq FROM feedback WHERE engine=?1 AND epoch=?2 AND seq>?3 UNION "
        "SELECT engine,epoch,seq FROM rejects WHERE engine=?1 AND epoch=?2 AND seq>?3 ORDER BY seq",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, engine);
    db_bind_i64(q, 2, (int64_t)epoch);
    db_bind_i64(q, 3, (int64_t)after);
    return walk(q, fn, ctx, e);
}

int store_put_gap(struct store *s, struct str engine, uint64_t epoch, uint64_t first, uint64_t last,
                  int64_t at_us, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s, "INSERT OR REPLACE INTO gaps(engine,epoch,first_seq,last_seq,at_us) VALUES(?,?,?,?,?)",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, engine);
    db_bind_i64(q, 2, (int64_t)epoch);
    db_bind_i64(q, 3, (int64_t)first);
    db_bind_i64(q, 4, (int64_t)last);
    db_bind_i64(q, 5, at_us);
    return db_run(q, NULL, e);
}

int store_put_engine(struct store *s, const struct stored_engine *g, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR REPLACE INTO engines(engine,epoch,model,weights,version,"
                             "desired_version,seen_us,crashes) VALUES(?,?,?,?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, g->engine);
    db_bind_i64(q, 2, (int64_t)g->epoch);
    db_bind_str(q, 3, g->model.p ? g->model : STR(""));
    db_bind_str(q, 4, g->weights.p ? g->weights : STR(""));
    db_bind_str(q, 5, g->version.p ? g->version : STR(""));
    db_bind_i64(q, 6, (int64_t)g->desired_version);
    db_bind_i64(q, 7, g->seen_us);
    db_bind_i64(q, 8, (int64_t)g->crashes);
    return db_run(q, NULL, e);
}

int store_get_crashes(struct store *s, struct str engine, uint64_t epoch, uint64_t *out,
                      struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT crashes FROM engines WHERE engine=? AND epoch=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, engine);
    db_bind_i64(q, 2, (int64_t)epoch);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = (uint64_t)db_col_i64(q, 0);
    db_reset(q);
    return ERR_OK;
}
