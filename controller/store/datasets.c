/* Requests for datasets. One that was being written when the process ended still stands as asked,
 * so it is written again. */
#include "controller/store/datasets.h"

int store_ask_dataset(struct store *s, const struct stored_dataset *d, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT INTO datasets VALUES(?,?,?,?,?,?,?,?,0,NULL,'','',0,'',0,0,0,"
                             "0,0,0)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, d->id);
    db_bind_str(q, 2, d->route);
    db_bind_i64(q, 3, d->since_us);
    db_bind_i64(q, 4, d->until_us);
    db_bind_i64(q, 5, d->only_scored);
    db_bind_str(q, 6, d->actor);
    db_bind_str(q, 7, d->reason);
    db_bind_i64(q, 8, d->asked_us);
    return db_run(q, NULL, e);
}

int store_end_dataset(struct store *s, const struct stored_dataset *d, int64_t now_us,
                      struct err *e)
{
    const int64_t numbers[] = {(int64_t)d->n_bytes,        (int64_t)d->n_outputs,
                               (int64_t)d->n_without_text, (int64_t)d->first_row,
                               (int64_t)d->last_row,       (int64_t)d->first_revision,
                               (int64_t)d->last_revision};
    struct db_stmt *q;
    int rc = store_statement(s,
                             "UPDATE datasets SET state=?,done_us=?,error=?,path=?,sha256=?,"
                             "bytes=?,outputs=?,without_text=?,first_row=?,last_row=?,"
                             "first_revision=?,last_revision=? WHERE id=? AND state=0",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, d->state);
    db_bind_i64(q, 2, now_us);
    db_bind_str(q, 3, d->error.p ? d->error : STR(""));
    db_bind_str(q, 4, d->path.p ? d->path : STR(""));
    db_bind_str(q, 5, d->sha256.p ? d->sha256 : STR(""));
    for (int i = 0; i < 7; i++)
        db_bind_i64(q, 6 + i, numbers[i]);
    db_bind_str(q, 13, d->id);
    return db_run(q, NULL, e);
}

int store_next_dataset(struct store *s, struct arena *a, struct stored_dataset *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT id,route,since_us,until_us,only_scored,actor,reason,asked_us "
                             "FROM datasets WHERE state=0 ORDER BY asked_us,rowid LIMIT 1",
                             &q, e);
    if (rc == ERR_OK)
        rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct stored_dataset){.id = arena_str(a, db_col_str(q, 0)),
                                   .route = arena_str(a, db_col_str(q, 1)),
                                   .since_us = db_col_i64(q, 2),
                                   .until_us = db_col_i64(q, 3),
                                   .only_scored = db_col_i64(q, 4) != 0,
                                   .actor = arena_str(a, db_col_str(q, 5)),
                                   .reason = arena_str(a, db_col_str(q, 6)),
                                   .asked_us = db_col_i64(q, 7)};
    db_reset(q);
    return out->id.p && out->route.p && out->actor.p && out->reason.p
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "no memory for a dataset");
}

int store_count_asked(struct store *s, int64_t *out, struct err *e)
{
    return store_number(s, "SELECT count(*) FROM datasets WHERE state=0", out, e);
}

int store_has_asked(struct store *s, struct str route, struct str actor, int64_t since_us,
                    bool *out, struct err *e)
{
    struct db_stmt *q;
    *out = false;
    int rc = store_statement(
        s, "SELECT 1 FROM datasets WHERE route=? AND actor=? AND asked_us>=? LIMIT 1", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_str(q, 2, actor);
    db_bind_i64(q, 3, since_us);
    rc = db_step(q, e);
    *out = rc == ERR_OK;
    db_reset(q);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}
