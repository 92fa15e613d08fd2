/* The database wrapper on real files in a fresh folder. */
#include "common/db.h"
#include "common/io.h"
#include "common/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];
static struct db *d;
static struct err e;

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/milepost-db-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x.db", folder);
    d = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const SUFFIX[] = {"", "-wal", "-shm"};
    db_close(d);
    for (int i = 0; i < 3; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s%s", path, SUFFIX[i]);
        unlink(file);
    }
    return rmdir(folder);
}

static const struct db_migration STEPS[] = {
    {1, "0001_base", "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT NOT NULL, r REAL) STRICT;"},
    {2, "0002_more", "ALTER TABLE t ADD COLUMN w TEXT;"},
    {3, "0003_bad", "CREATE TABLE u(k INTEGER) STRICT; CREATE TABLE t(k INTEGER) STRICT;"},
};

static void test_values_go_in_and_out(void **state)
{
    (void)state;
    assert_ok(db_open(&d, path, DB_SYNC_FULL, &e), &e);
    assert_ok(db_migrate(d, STEPS, 2, &e), &e);
    struct db_stmt *put, *get;
    assert_ok(db_prepare(d, &put, "INSERT OR IGNORE INTO t(k,v,r,w) VALUES(?,?,?,?)", &e), &e);
    int64_t changes;
    for (int twice = 0; twice < 2; twice++) {
        db_bind_i64(put, 1, INT64_MAX);
        db_bind_str(put, 2, (struct str){"a\0b", 3});
        db_bind_f64(put, 3, NAN);
        db_bind_str(put, 4, (struct str){0});
        assert_ok(db_run(put, &changes, &e), &e);
        assert_int_equal(changes, 1 - twice);
    }
    assert_ok(db_prepare(d, &get, "SELECT k,v,r,w FROM t", &e), &e);
    assert_ok(db_step(get, &e), &e);
    assert_true(db_col_i64(get, 0) == INT64_MAX);
    assert_int_equal(db_col_str(get, 1).n, 3);
    assert_true(isnan(db_col_f64(get, 2)) && db_col_is_null(get, 2));
    assert_null(db_col_str(get, 3).p);
    assert_int_equal(db_step(get, &e), ERR_NOT_FOUND);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_failed_migration_leaves_the_old_state(void **state)
{
    (void)state;
    assert_ok(db_open(&d, path, DB_SYNC_NORMAL, &e), &e);
    assert_int_equal(db_migrate(d, STEPS, 3, &e), ERR_BUG);
    assert_non_null(strstr(e.msg, "0003_bad"));
    assert_ok(db_migrate(d, STEPS, 2, &e), &e); /* already there: nothing happens */
    struct db_stmt *s;
    assert_int_equal(db_prepare(d, &s, "SELECT k FROM u", &e), ERR_BUG);
    assert_int_equal(db_migrate(d, STEPS, 1, &e), ERR_UNSUPPORTED);
}

static void test_rollback_and_conflict(void **state)
{
    (void)state;
    assert_ok(db_open(&d, path, DB_SYNC_NORMAL, &e), &e);
    assert_ok(db_migrate(d, STEPS, 1, &e), &e);
    assert_ok(db_begin(d, &e), &e);
    assert_ok(db_exec(d, "INSERT INTO t(k,v) VALUES(1,'x')", &e), &e);
    assert_int_equal(db_exec(d, "INSERT INTO t(k,v) VALUES(1,'y')", &e), ERR_CONFLICT);
    db_rollback(d);
    struct db_stmt *s;
    assert_ok(db_prepare(d, &s, "SELECT k FROM t", &e), &e);
    assert_int_equal(db_step(s, &e), ERR_NOT_FOUND);
}

static void test_a_full_database_is_told_apart(void **state)
{
    (void)state;
    assert_ok(db_open(&d, path, DB_SYNC_NORMAL, &e), &e);
    assert_ok(db_migrate(d, STEPS, 1, &e), &e);
    assert_ok(db_exec(d, "PRAGMA max_page_count=4", &e), &e);
    assert_int_equal(
        db_exec(d, "INSERT INTO t VALUES(1, zeroblob(1)||hex(randomblob(90000)), 0)", &e), ERR_IO);
    assert_true(db_is_full(d));
    assert_non_null(strstr(e.msg, "disk is full"));
}

static void test_bad_paths_are_explained(void **state)
{
    (void)state;
    assert_int_equal(db_open(&d, "/nonexistent/x.db", DB_SYNC_FULL, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/nonexistent/x.db"));
    assert_ok(io_write_file(path,
                            STR("this is not a database, it is a plain text file ......."
                                "..................................................."),
                            &e),
              &e);
    assert_int_equal(db_open(&d, path, DB_SYNC_FULL, &e), ERR_CORRUPT);
    assert_int_equal(db_open_readonly(&d, path, &e), ERR_CORRUPT);
    assert_null(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_go_in_and_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_migration_leaves_the_old_state, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rollback_and_conflict, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_database_is_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_paths_are_explained, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
