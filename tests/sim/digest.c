/* What a run left behind, as one number: the world's counts, the state of its random numbers, and
 * every value of every row in the databases of the controller and of the engines. Invariant: runs
 * that differ in anything decided, stored or measured have different digests. */
#include "tests/sim/world.h"

#include "common/hash.h"

#include <stdio.h>

static uint64_t add_row(sqlite3_stmt *q, uint64_t digest)
{
    for (int i = 0; i < sqlite3_column_count(q); i++) {
        double number = sqlite3_column_double(q, i); /* first: as text it has 15 digits */
        const void *bytes = sqlite3_column_blob(q, i);
        digest = hash64(&number, sizeof number, digest);
        digest = hash64(bytes, (size_t)sqlite3_column_bytes(q, i), digest);
    }
    return digest;
}

static uint64_t add_rows(const struct world *w, sqlite3 *db, const char *table, uint64_t digest)
{
    sqlite3_stmt *q;
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", table);
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        world_fail(w, "%s: %s", sql, sqlite3_errmsg(db));
    while (sqlite3_step(q) == SQLITE_ROW)
        digest = add_row(q, digest);
    sqlite3_finalize(q);
    return digest;
}

static uint64_t add_database(const struct world *w, struct db *db, uint64_t digest)
{
    struct db_stmt *q;
    WORLD_TRY(w,
              db_prepare(db, &q, "SELECT name FROM sqlite_master WHERE type='table'", &world_err));
    while (db_step(q, NULL) == ERR_OK)
        digest = add_rows(w, db_handle(db), db_col_str(q, 0).p, digest);
    return digest;
}

uint64_t world_digest(const struct world *w)
{
    const uint64_t counts[] = {world_now_us(w),  w->n_admitted,   w->n_stored,
                               w->n_lost,        w->n_events,     w->n_restarts[0],
                               w->n_restarts[1], w->n_restarts[2]};
    uint64_t digest = hash64(counts, sizeof counts, 0);
    digest = hash64(&w->rng, sizeof w->rng, digest);
    digest = add_database(w, w->disk, digest);
    for (uint32_t i = 0; i < w->plan.n_engines; i++)
        digest = add_database(w, w->engine[i].disk, digest);
    return digest;
}
