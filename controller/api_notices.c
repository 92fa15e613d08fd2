/* Answers from the tables of datasets, notices and orders. */
#include "controller/api_notices.h"

static json_t *text(struct db_stmt *q, int i)
{
    struct str s = db_col_str(q, i);
    return json_str(s.p ? s : STR(""));
}

static json_t *number(struct db_stmt *q, int i)
{
    return db_col_is_null(q, i) ? json_null() : json_integer(db_col_i64(q, i));
}

#define DATASET_COLUMNS                                                                            \
    "id,route,actor,reason,error,path,sha256,since_us,until_us,only_scored,asked_us,done_us,"      \
    "bytes,outputs,without_text,first_row,last_row,first_revision,last_revision,state"

static json_t *dataset_of(struct db_stmt *q)
{
    static const char *const TEXTS[] = {"id",    "route", "actor", "reason",
                                        "error", "path",  "sha256"};
    static const char *const NUMBERS[] = {
        "since_us", "until_us",     "only_scored", "asked_us", "done_us",        "bytes",
        "outputs",  "without_text", "first_row",   "last_row", "first_revision", "last_revision"};
    static const char *const STATES[] = {"asked", "there", "failed"};
    json_t *v = json_object();
    for (int i = 0; i < 7; i++)
        json_object_set_new(v, TEXTS[i], text(q, i));
    for (int i = 0; i < 12; i++)
        json_object_set_new(v, NUMBERS[i], number(q, 7 + i));
    json_object_set_new(v, "only_scored", json_boolean(db_col_i64(q, 9) != 0));
    json_object_set_new(v, "state", json_string(STATES[db_col_i64(q, 19) % 3]));
    return v;
}

static json_t *notice_of(struct db_stmt *q)
{
    static const char *const STATES[] = {"waits", "sent", "given_up"};
    json_t *v = json_object();
    json_object_set_new(v, "webhook", text(q, 0));
    json_object_set_new(v, "id", text(q, 1));
    json_object_set_new(v, "event", text(q, 2));
    json_object_set_new(v, "state", json_string(STATES[db_col_i64(q, 3) % 3]));
    json_object_set_new(v, "attempts", number(q, 4));
    json_object_set_new(v, "created_us", number(q, 5));
    json_object_set_new(v, "done_us", number(q, 6));
    json_object_set_new(v, "answer", text(q, 7));
    return v;
}

/* {name: every row}; rc: of what was done before. */
static int collect(struct db_stmt *q, int rc, json_t *(*of)(struct db_stmt *), const char *name,
                   json_t *into, struct err *e)
{
    json_t *list = json_array();
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        json_array_append_new(list, of(q));
    json_object_set_new(into, name, list);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int api_read_datasets(struct store *s, struct str route, int64_t limit, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = json_object();
    int rc = store_statement(s,
                             "SELECT * FROM (SELECT " DATASET_COLUMNS " FROM datasets WHERE "
                             "route=? ORDER BY asked_us DESC LIMIT ?) ORDER BY asked_us",
                             &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, limit);
    }
    return collect(q, rc, dataset_of, "datasets", *out, e);
}

#define NOTICE_COLUMNS "webhook,key,event,state,attempts,created_us,done_us,answer"

static int notices_of(struct store *s, struct str id, json_t *into, struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(s, "SELECT " NOTICE_COLUMNS " FROM notices WHERE key='dataset-'||?", &q, e);
    if (rc == ERR_OK)
        db_bind_str(q, 1, id);
    return collect(q, rc, notice_of, "notices", into, e);
}

int api_read_dataset(struct store *s, struct str id, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = NULL;
    int rc = store_statement(s, "SELECT " DATASET_COLUMNS " FROM datasets WHERE id=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, id);
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "there is no dataset '%.*s'", (int)(id.n & 0x3f), id.p);
    if (rc != ERR_OK)
        return rc;
    *out = dataset_of(q);
    db_reset(q);
    return notices_of(s, id, *out, e);
}

int api_read_notices(struct store *s, int64_t limit, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = json_object();
    int rc = store_statement(s,
                             "SELECT " NOTICE_COLUMNS " FROM (SELECT " NOTICE_COLUMNS
                             ",id FROM notices ORDER BY id DESC LIMIT ?) ORDER BY id",
                             &q, e);
    if (rc == ERR_OK)
        db_bind_i64(q, 1, limit);
    return collect(q, rc, notice_of, "notices", *out, e);
}

static json_t *order_of(struct db_stmt *q)
{
    static const char *const TEXTS[] = {"engine", "command", "argument", "actor", "answer"};
    json_t *v = json_object();
    for (int i = 0; i < 5; i++)
        json_object_set_new(v, TEXTS[i], text(q, i));
    json_object_set_new(v, "is_ok", json_boolean(db_col_i64(q, 5) != 0));
    json_object_set_new(v, "at_us", number(q, 6));
    return v;
}

int api_read_orders(struct store *s, int64_t limit, json_t **out, struct err *e)
{
    struct db_stmt *q;
    *out = json_object();
    int rc = store_statement(s,
                             "SELECT * FROM (SELECT engine,command,argument,actor,answer,is_ok,"
                             "at_us,id FROM engine_orders ORDER BY id DESC LIMIT ?) ORDER BY id",
                             &q, e);
    if (rc == ERR_OK)
        db_bind_i64(q, 1, limit);
    return collect(q, rc, order_of, "orders", *out, e);
}
