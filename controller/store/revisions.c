/* Revisions are kept as the JSON that engines get, with a few columns for queries. Writer thread;
 * the getters also on readers. */
#include "controller/store/revisions.h"

#include "common/json.h"

int store_add_revision(struct store *s, struct revision *r, struct err *e)
{
    struct db_stmt *q;
    struct buf text;
    json_t *v = NULL;
    int64_t last = 0;
    int rc;
    buf_init(&text, MiB);
    TRY(store_number(s, "SELECT max(number) FROM revisions", &last, e));
    r->number = (uint64_t)last + 1;
    param_set_hash(&r->params, r->hash);
    v = revision_encode(r);
    if (!v)
        TRY(err_set(e, ERR_NOMEM, "no memory for revision %llu", (unsigned long long)r->number));
    TRY(json_write(v, &text, e));
    TRY(store_statement(s,
                        "INSERT INTO revisions(number,parent,route,author,reason,created_us,hash,"
                        "json) VALUES(?,?,?,?,?,?,?,?)",
                        &q, e));
    db_bind_i64(q, 1, (int64_t)r->number);
    db_bind_i64(q, 2, (int64_t)r->parent);
    db_bind_str(q, 3, r->route);
    db_bind_str(q, 4, r->author);
    db_bind_str(q, 5, r->reason.p ? r->reason : STR(""));
    db_bind_i64(q, 6, r->created.us);
    db_bind_str(q, 7, str_from(r->hash));
    db_bind_str(q, 8, buf_str(&text));
    TRY(db_run(q, NULL, e));
out:
    json_decref(v);
    buf_free(&text);
    return rc;
}

int store_get_revision(struct store *s, uint64_t number, struct arena *a, struct revision *out,
                       struct err *e)
{
    struct db_stmt *q;
    json_t *v = NULL;
    int rc = store_statement(s, "SELECT json FROM revisions WHERE number=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)number);
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "there is no revision %llu", (unsigned long long)number);
    if (rc != ERR_OK)
        return rc;
    rc = json_parse(db_col_str(q, 0), 0, &v, e);
    if (rc == ERR_OK) {
        struct json_at at = json_root(v);
        rc = revision_decode(&at, a, out, e);
        json_decref(v);
    }
    db_reset(q);
    if (rc != ERR_OK)
        return err_wrap(e, "revision %llu", (unsigned long long)number);
    return out->number == number
               ? ERR_OK
               : err_set(e, ERR_CORRUPT, "revision %llu says it is %llu",
                         (unsigned long long)number, (unsigned long long)out->number);
}

int store_last_revision_by(struct store *s, struct str route, struct str author, uint64_t *number,
                           struct err *e)
{
    struct db_stmt *q;
    *number = 0;
    int rc = store_statement(
        s, "SELECT coalesce(max(number),0) FROM revisions WHERE route=? AND author=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_str(q, 2, author);
    rc = db_step(q, e);
    if (rc == ERR_OK) {
        *number = (uint64_t)db_col_i64(q, 0);
        db_reset(q);
    }
    return rc;
}

int store_quarantine(struct store *s, struct str route, struct str hash, uint64_t revision,
                     uint64_t decision, int64_t at_us, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR IGNORE INTO quarantine(route,hash,revision,decision,at_us) "
                             "VALUES(?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_str(q, 2, hash);
    db_bind_i64(q, 3, (int64_t)revision);
    db_bind_i64(q, 4, (int64_t)decision);
    db_bind_i64(q, 5, at_us);
    return db_run(q, NULL, e);
}

int store_is_quarantined(struct store *s, struct str route, struct str hash, bool *out,
                         struct err *e)
{
    struct db_stmt *q;
    *out = false;
    int rc = store_statement(s, "SELECT 1 FROM quarantine WHERE route=? AND hash=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_str(q, 2, hash);
    rc = db_step(q, e);
    if (rc == ERR_OK) {
        *out = true;
        db_reset(q);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int store_start_experiment(struct store *s, const struct experiment_start *x, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR IGNORE INTO experiments(id,route,champion,challenger,actor,"
                             "started_us,outcome,last_decision) VALUES(?,?,?,?,?,?,'running',?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, x->id);
    db_bind_str(q, 2, x->route);
    db_bind_i64(q, 3, (int64_t)x->champion);
    db_bind_i64(q, 4, (int64_t)x->challenger);
    db_bind_str(q, 5, x->actor);
    db_bind_i64(q, 6, x->at_us);
    db_bind_i64(q, 7, (int64_t)x->decision);
    return db_run(q, NULL, e);
}

int store_end_experiment(struct store *s, struct str id, struct str outcome, uint64_t decision,
                         int64_t at_us, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s, "UPDATE experiments SET outcome=?, ended_us=?, last_decision=? WHERE id=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, outcome);
    db_bind_i64(q, 2, at_us);
    db_bind_i64(q, 3, (int64_t)decision);
    db_bind_str(q, 4, id);
    return db_run(q, NULL, e);
}
