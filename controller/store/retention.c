/* By output id, which grows with the arrival: "texts_from" moves over the oldest, so a step looks
 * only at what it drops. A text without its hash (rows of an earlier version) leaves it behind. */
#include "controller/store/retention.h"

#include "common/buf.h"
#include "common/hash.h"

#include <stdio.h>

static const char TEXTS_FROM[] = "texts_from";

int store_texts_from(struct store *s, int64_t *id, struct err *e)
{
    struct arena a;
    struct str text;
    *id = 1;
    arena_init(&a, KiB);
    int rc = store_setting_get(s, TEXTS_FROM, &a, &text, e);
    if (rc == ERR_OK)
        rc = str_to_i64(text, id, e);
    arena_free(&a);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* The last id of at most `limit` from `from` on that are all older than the cutoff; from - 1: none.
 */
static int find_last(struct store *s, int64_t from, int64_t cutoff_us, int64_t limit, int64_t *last,
                     struct err *e)
{
    struct db_stmt *q;
    *last = from - 1;
    int rc = store_statement(s, "SELECT id,created_us FROM outputs WHERE id>=? ORDER BY id LIMIT ?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, from);
    db_bind_i64(q, 2, limit);
    while ((rc = db_step(q, e)) == ERR_OK && db_col_i64(q, 1) < cutoff_us)
        *last = db_col_i64(q, 0);
    db_reset(q);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int run_range(struct store *s, const char *sql, int64_t from, int64_t last, int64_t *n,
                     struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, sql, &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, from);
    db_bind_i64(q, 2, last);
    return db_run(q, n, e);
}

int store_expire_texts(struct store *s, int64_t cutoff_us, int64_t limit, int64_t *n, struct err *e)
{
    int64_t from, last;
    char text[24];
    *n = 0;
    int rc = store_texts_from(s, &from, e);
    if (rc == ERR_OK)
        rc = find_last(s, from, cutoff_us, limit, &last, e);
    if (rc != ERR_OK || last < from)
        return rc;
    rc = run_range(s,
                   "UPDATE outputs SET raw_hash=(SELECT sha256(unpack(packed)) FROM bodies WHERE "
                   "output=id) WHERE id BETWEEN ? AND ? AND length(raw_hash)=0",
                   from, last, NULL, e);
    if (rc == ERR_OK)
        rc = run_range(s, "DELETE FROM bodies WHERE output BETWEEN ? AND ?", from, last, n, e);
    snprintf(text, sizeof text, "%lld", (long long)last + 1);
    return rc == ERR_OK ? store_setting_put(s, TEXTS_FROM, str_from(text), e) : rc;
}

int store_expire_rollups(struct store *s, int64_t cutoff_us, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "DELETE FROM rollups WHERE hour_us<?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, cutoff_us);
    return db_run(q, NULL, e);
}
