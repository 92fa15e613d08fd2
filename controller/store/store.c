/* Opening, migrating, transactions, and the counter of the global order.
 *
 * Invariant: next_ord is 0 (unknown) or above every scores.row and events.ord in the database and
 * in the running transaction. One thread. */
#include "controller/store/store.h"

#include "common/clock.h"
#include "common/log.h"
#include "controller/store/pack.h"
#include "schemas/migrations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { MAX_STATEMENTS = 128, MAX_MIGRATIONS = 64 };

struct store {
    struct db *db;
    int lock_fd; /* -1 for a reader */
    uint64_t next_ord;
    struct kept_statement {
        const char *sql;
        struct db_stmt *stmt;
    } kept[MAX_STATEMENTS]; /* what every row needs is soon in front */
    uint32_t n_kept;
};

static int migrate(struct db *db, struct err *e)
{
    struct db_migration m[MAX_MIGRATIONS];
    for (size_t i = 0; i < SCHEMA_MIGRATIONS_COUNT && i < MAX_MIGRATIONS; i++) {
        m[i] = (struct db_migration){.number = (uint32_t)i + 1,
                                     .name = SCHEMA_MIGRATIONS[i].name,
                                     .sql = SCHEMA_MIGRATIONS[i].p};
    }
    return db_migrate(db, m, SCHEMA_MIGRATIONS_COUNT, e);
}

/* The schema of a database that has one and is behind; 0 = nothing to do. */
static int64_t old_schema(struct db *db)
{
    struct db_stmt *q;
    int64_t have = 0;
    if (db_prepare(db, &q, "PRAGMA user_version", NULL) == ERR_OK && db_step(q, NULL) == ERR_OK) {
        have = db_col_i64(q, 0);
        db_reset(q);
    }
    return have < (int64_t)SCHEMA_MIGRATIONS_COUNT ? have : 0;
}

/* A large database takes minutes, and nobody is answered meanwhile: said before and after. */
static int bring_up_to_date(struct db *db, const char *path, struct err *e)
{
    int64_t have = old_schema(db);
    struct mono begin = clock_mono(&CLOCK_REAL);
    if (have)
        log_event(LOG_INFO, "store.upgrade",
                  "path=\"%s\" schema=%lld to=%zu state=\"begins: some 4 us an output\"", path,
                  (long long)have, (size_t)SCHEMA_MIGRATIONS_COUNT);
    int rc = migrate(db, e);
    if (have && rc == ERR_OK)
        log_event(LOG_INFO, "store.upgrade", "path=\"%s\" state=done seconds=%.1f", path,
                  (double)mono_since_us(begin, clock_mono(&CLOCK_REAL)) * 1e-6);
    return rc;
}

/* One writer: a second controller on the same file would interleave its decisions. The lock is a
 * file of its own, because closing a descriptor of the database drops SQLite's locks (POSIX). */
static int take_lock(const char *path, int *out, struct err *e)
{
    char name[4096];
    *out = -1;
    if (snprintf(name, sizeof name, "%s.lock", path) >= (int)sizeof name)
        return err_set(e, ERR_INVALID, "the database's path is too long");
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_set_sys(e, ERR_IO, errno,
                           "cannot write %s; check that its folder exists and may be written",
                           name);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(e, ERR_CONFLICT,
                       "%s is in use by another controller: stop it, or give another path", path);
    }
    *out = fd;
    return ERR_OK;
}

static int store_new(struct store **out, struct db *db, int lock_fd, struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out) {
        db_close(db);
        if (lock_fd >= 0)
            close(lock_fd);
        return err_set(e, ERR_NOMEM, "no memory for the store");
    }
    (*out)->db = db;
    (*out)->lock_fd = lock_fd;
    return pack_add_functions(db, e);
}

int store_open(struct store **out, const char *path, const struct db_stop *stop, struct err *e)
{
    struct db *db = NULL;
    int lock_fd;
    *out = NULL;
    int rc = take_lock(path, &lock_fd, e);
    if (rc != ERR_OK)
        return rc;
    rc = db_open(&db, path, DB_SYNC_FULL, e);
    if (rc == ERR_OK) {
        db_stop_when(db, stop);
        rc = bring_up_to_date(db, path, e);
    }
    /* 32 MiB of log before it is copied: an index page that many batches touch is copied once. */
    if (rc == ERR_OK)
        rc = db_exec(db, "PRAGMA wal_autocheckpoint=8192", e);
    if (rc != ERR_OK) {
        db_close(db);
        close(lock_fd);
        return rc;
    }
    return store_new(out, db, lock_fd, e);
}

/* A reader cannot migrate, and must not misread what another version wrote. */
static int check_version(struct store *s, const char *path, struct err *e)
{
    int64_t have;
    int rc = store_number(s, "PRAGMA user_version", &have, e);
    if (rc != ERR_OK || have == (int64_t)SCHEMA_MIGRATIONS_COUNT)
        return rc;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: written by %s version (schema %lld, this one reads %d)%s", path,
                   have > (int64_t)SCHEMA_MIGRATIONS_COUNT ? "a newer" : "an older",
                   (long long)have, (int)SCHEMA_MIGRATIONS_COUNT,
                   have > (int64_t)SCHEMA_MIGRATIONS_COUNT
                       ? "; use that version"
                       : "; a controller of this version brings it up to date when it starts");
}

int store_open_readonly(struct store **out, const char *path, struct err *e)
{
    struct db *db;
    *out = NULL;
    int rc = db_open_readonly(&db, path, e);
    if (rc == ERR_OK)
        rc = store_new(out, db, -1, e);
    if (rc == ERR_OK)
        rc = check_version(*out, path, e);
    if (rc != ERR_OK) {
        store_close(*out);
        *out = NULL;
    }
    return rc;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    /* Readers may still be open, so SQLite would leave the log beside the database. */
    if (s->lock_fd >= 0)
        (void)!db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL);
    db_close(s->db);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s);
}

int store_begin(struct store *s, struct err *e)
{
    return db_begin(s->db, e);
}

int store_commit(struct store *s, struct err *e)
{
    return db_commit(s->db, e);
}

void store_rollback(struct store *s)
{
    db_rollback(s->db);
    s->next_ord = 0;
}

static int find_next_ord(struct store *s, struct err *e)
{
    int64_t last = 0;
    if (s->next_ord)
        return ERR_OK;
    int rc = store_number(s,
                          "SELECT max(coalesce((SELECT max(row) FROM scores),0),"
                          "coalesce((SELECT max(ord) FROM events),0))",
                          &last, e);
    s->next_ord = (uint64_t)last + 1;
    return rc;
}

int store_next_ord(struct store *s, uint64_t *out, struct err *e)
{
    int rc = find_next_ord(s, e);
    *out = s->next_ord++;
    return rc;
}

int store_last_ord(struct store *s, uint64_t *out, struct err *e)
{
    int rc = find_next_ord(s, e);
    *out = s->next_ord - 1;
    return rc;
}

static void move_ahead(struct store *s, uint32_t i)
{
    struct kept_statement found = s->kept[i];
    if (i == 0)
        return;
    s->kept[i] = s->kept[i - 1];
    s->kept[i - 1] = found;
}

int store_statement(struct store *s, const char *sql, struct db_stmt **out, struct err *e)
{
    for (uint32_t i = 0; i < s->n_kept; i++) {
        if (s->kept[i].sql == sql) {
            *out = s->kept[i].stmt;
            move_ahead(s, i);
            return ERR_OK;
        }
    }
    int rc = s->n_kept < MAX_STATEMENTS
                 ? db_prepare(s->db, out, sql, e)
                 : err_set(e, ERR_BUG, "store: more than %d statements", MAX_STATEMENTS);
    if (rc == ERR_OK) {
        s->kept[s->n_kept].sql = sql;
        s->kept[s->n_kept++].stmt = *out;
    }
    return rc;
}

int store_number(struct store *s, const char *sql, int64_t *out, struct err *e)
{
    struct db_stmt *q;
    *out = 0;
    int rc = store_statement(s, sql, &q, e);
    if (rc == ERR_OK)
        rc = db_step(q, e);
    if (rc == ERR_OK) {
        *out = db_col_i64(q, 0);
        db_reset(q);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

struct db *store_db(struct store *s)
{
    return s->db;
}

int store_setting_get(struct store *s, const char *key, struct arena *a, struct str *out,
                      struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT value FROM settings WHERE key=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, str_from(key));
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = arena_str(a, db_col_str(q, 0));
    db_reset(q);
    return out->p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for setting %s", key);
}

int store_setting_put(struct store *s, const char *key, struct str value, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "INSERT OR REPLACE INTO settings(key,value) VALUES(?,?)", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, str_from(key));
    db_bind_str(q, 2, value);
    return db_run(q, NULL, e);
}
