/* The outbox of the webhooks. An index over what waits keeps each question to a few pages, however
 * much lies behind a receiver that is down. */
#include "controller/store/notices.h"

enum { KEPT = 10000 }; /* of those that are over */

static struct str text_or_empty(struct str s)
{
    return s.p ? s : STR("");
}

int store_add_notice(struct store *s, const struct stored_notice *n, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR IGNORE INTO notices(webhook,key,event,body,created_us,"
                             "state,attempts,next_us,answer) VALUES(?,?,?,?,?,?,0,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, n->webhook);
    db_bind_str(q, 2, n->key);
    db_bind_str(q, 3, n->event);
    db_bind_str(q, 4, n->body);
    db_bind_i64(q, 5, n->created_us);
    db_bind_i64(q, 6, n->state);
    db_bind_i64(q, 7, n->next_us);
    db_bind_str(q, 8, text_or_empty(n->answer));
    return db_run(q, NULL, e);
}

static int forget_old(struct store *s, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s, "DELETE FROM notices WHERE state<>0 AND id<=(SELECT max(id) FROM notices)-?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, KEPT);
    return db_run(q, NULL, e);
}

int store_note_attempt(struct store *s, const struct stored_notice *n, int64_t now_us,
                       struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "UPDATE notices SET state=?,attempts=?,next_us=?,done_us=?,answer=? "
                             "WHERE id=?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, n->state);
    db_bind_i64(q, 2, n->attempts);
    db_bind_i64(q, 3, n->next_us);
    if (n->state == NOTICE_WAITS)
        db_bind_null(q, 4);
    else
        db_bind_i64(q, 4, now_us);
    db_bind_str(q, 5, text_or_empty(n->answer));
    db_bind_i64(q, 6, n->id);
    rc = db_run(q, NULL, e);
    return rc == ERR_OK && n->state != NOTICE_WAITS ? forget_old(s, e) : rc;
}

int store_next_notice(struct store *s, struct str webhook, int64_t now_us, struct arena *a,
                      struct stored_notice *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT id,key,event,body,created_us,attempts FROM notices WHERE "
                             "state=0 AND webhook=? AND next_us<=? ORDER BY next_us,id LIMIT 1",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, webhook);
    db_bind_i64(q, 2, now_us);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct stored_notice){.id = db_col_i64(q, 0),
                                  .webhook = webhook,
                                  .key = arena_str(a, db_col_str(q, 1)),
                                  .event = arena_str(a, db_col_str(q, 2)),
                                  .body = arena_str(a, db_col_str(q, 3)),
                                  .created_us = db_col_i64(q, 4),
                                  .attempts = (uint32_t)db_col_i64(q, 5)};
    db_reset(q);
    return out->key.p && out->event.p && out->body.p
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "no memory for a notice");
}

int store_count_waiting(struct store *s, struct str webhook, int64_t *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT count(*) FROM notices WHERE state=0 AND webhook=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, webhook);
    rc = db_step(q, e);
    if (rc == ERR_OK)
        *out = db_col_i64(q, 0);
    db_reset(q);
    return rc;
}

int store_drop_notices(struct store *s, struct str names, int64_t now_us, int64_t *n, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "UPDATE notices SET state=2,done_us=?,answer='the configuration names "
                             "no such webhook' WHERE state=0 AND webhook NOT IN (SELECT value FROM "
                             "json_each(?))",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, now_us);
    db_bind_str(q, 2, names);
    return db_run(q, n, e);
}
