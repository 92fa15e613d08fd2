/* controller/test_database.h - a database in a folder of its own; for tests. */
#ifndef CONTROLLER_TEST_DATABASE_H
#define CONTROLLER_TEST_DATABASE_H

#include "common/db.h"
#include "common/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct test_database {
    char folder[64], path[96];
};

/* 0, or -1; for a set-up. Nothing is in the folder yet. */
static inline int test_database_make(struct test_database *d)
{
    snprintf(d->folder, sizeof d->folder, "/tmp/milepost-test-XXXXXX");
    bool is_made = mkdtemp(d->folder) != NULL;
    snprintf(d->path, sizeof d->path, "%s/m.db", d->folder);
    return is_made ? 0 : -1;
}

/* The folder stays. */
static inline void test_database_clear(const struct test_database *d)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < sizeof SUFFIX / sizeof *SUFFIX; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s%s", d->path, SUFFIX[i]);
        unlink(file);
    }
}

/* 0, or -1 when files are left; for a tear-down. */
static inline int test_database_remove(const struct test_database *d)
{
    test_database_clear(d);
    return rmdir(d->folder);
}

/* The one number that the query finds, read beside the writer. */
static inline int64_t test_database_number(const struct test_database *d, const char *sql)
{
    struct err e = {0};
    struct db *db;
    struct db_stmt *q;
    assert_ok(db_open_readonly(&db, d->path, &e), &e);
    assert_ok(db_prepare(db, &q, sql, &e), &e);
    assert_ok(db_step(q, &e), &e);
    int64_t n = db_col_i64(q, 0);
    db_close(db);
    return n;
}

#endif
