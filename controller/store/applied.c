/* What the desired state was and who served it; read by `milepost why` and `milepost engine`. */
#include "controller/store/applied.h"

int store_put_version(struct store *s, uint64_t version, uint64_t first_decision,
                      uint64_t last_decision, int64_t at_us, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "INSERT OR REPLACE INTO desired_versions VALUES(?,?,?,?)", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)version);
    db_bind_i64(q, 2, (int64_t)first_decision);
    db_bind_i64(q, 3, (int64_t)last_decision);
    db_bind_i64(q, 4, at_us);
    return db_run(q, NULL, e);
}

int store_put_applied(struct store *s, struct str engine, uint64_t version, int64_t at_us,
                      struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "INSERT OR IGNORE INTO applied(version,engine,at_us) VALUES(?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)version);
    db_bind_str(q, 2, engine);
    db_bind_i64(q, 3, at_us);
    return db_run(q, NULL, e);
}

int store_put_order(struct store *s, const struct stored_order *o, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT INTO engine_orders(engine,command,argument,actor,is_ok,answer,"
                             "at_us) VALUES(?,?,?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    const struct str texts[] = {o->engine, o->command, o->argument, o->actor};
    for (int i = 0; i < 4; i++)
        db_bind_str(q, i + 1, texts[i].p ? texts[i] : STR(""));
    db_bind_i64(q, 5, o->is_ok);
    db_bind_str(q, 6, o->answer.p ? o->answer : STR(""));
    db_bind_i64(q, 7, o->at_us);
    return db_run(q, NULL, e);
}
