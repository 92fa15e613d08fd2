/* SQLite behind typed calls: pragmas, statements that are kept, migrations.
 *
 * Why wrap it: every message names the database and the statement, NaN never reaches a column, and
 * a full disk can be told from the rest. A connection and its statements belong to one thread. */
#include "common/db.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_TIMEOUT_MS = 5000, STOP_EVERY = 20000 /* instructions of SQLite's machine */ };

struct db {
    sqlite3 *handle;
    struct db_stmt *first, *begin, *commit;
    char *path;
    bool is_full;
};

struct db_stmt {
    sqlite3_stmt *handle;
    struct db *db;
    struct db_stmt *next;
};

static enum err_code code_of(int rc)
{
    static const struct {
        int rc;
        enum err_code code;
    } TABLE[] = {
        {SQLITE_NOMEM, ERR_NOMEM},         {SQLITE_BUSY, ERR_BUSY},
        {SQLITE_LOCKED, ERR_BUSY},         {SQLITE_CORRUPT, ERR_CORRUPT},
        {SQLITE_NOTADB, ERR_CORRUPT},      {SQLITE_CONSTRAINT, ERR_CONFLICT},
        {SQLITE_TOOBIG, ERR_INVALID},      {SQLITE_MISMATCH, ERR_INVALID},
        {SQLITE_INTERRUPT, ERR_CANCELLED}, {SQLITE_RANGE, ERR_BUG},
        {SQLITE_MISUSE, ERR_BUG},          {SQLITE_ERROR, ERR_BUG},
    };
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++) {
        if (TABLE[i].rc == (rc & 0xff))
            return TABLE[i].code;
    }
    return ERR_IO;
}

static const char *advice_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return "; the disk is full: free some space or move the file";
    case SQLITE_CANTOPEN:
        return "; check that its folder exists and may be written";
    case SQLITE_READONLY:
        return "; the file or its folder is read-only";
    case SQLITE_NOTADB:
        return "; the file is something else: give another path";
    default:
        return "";
    }
}

static int fail(struct db *d, int rc, const char *what, struct err *e)
{
    d->is_full = (rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR;
    const char *text = d->handle ? sqlite3_errmsg(d->handle) : sqlite3_errstr(rc);
    return err_set(e, code_of(rc), "%s: %.60s: %s%s", d->path, what, text, advice_of(rc));
}

/* SQLite makes files as the umask says; what users said must not be readable by others. */
static int create_private(const char *path, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_set_sys(e, ERR_IO, errno,
                           "%s: cannot open the database; check that its folder exists and may be "
                           "written",
                           path);
    }
    close(fd);
    return ERR_OK;
}

static int db_open_flags(struct db **out, const char *path, int flags, struct err *e)
{
    *out = NULL;
    struct db *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, ERR_NOMEM, "%s: no memory for a database", path);
    d->path = strdup(path);
    flags |= SQLITE_OPEN_NOMUTEX; /* one thread has it: nothing to lock */
    int rc = d->path ? sqlite3_open_v2(path, &d->handle, flags, NULL) : SQLITE_NOMEM;
    if (rc != SQLITE_OK) {
        int code = fail(d, rc, "open", e);
        db_close(d);
        return code;
    }
    sqlite3_extended_result_codes(d->handle, 1);
    sqlite3_busy_timeout(d->handle, BUSY_TIMEOUT_MS);
    *out = d;
    return ERR_OK;
}

/* https://www.sqlite.org/malloc.html#memory_statistics: nobody reads them. */
void db_setup(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* https://www.sqlite.org/src/file/src/memdb.c: names that begin with '/' are shared. */
static const char MEMORY_VFS[] = "memdb";

void db_keep_in_memory(void)
{
    sqlite3_initialize();
    sqlite3_vfs_register(sqlite3_vfs_find(MEMORY_VFS), 1);
}

/* Such a database has no log; to roll back, what was changed is kept. */
static const char *journal_pragma(void)
{
    bool is_memory = strcmp(sqlite3_vfs_find(NULL)->zName, MEMORY_VFS) == 0;
    return is_memory ? "PRAGMA journal_mode=MEMORY" : "PRAGMA journal_mode=WAL";
}

int db_open(struct db **out, const char *path, enum db_sync sync, struct err *e)
{
    *out = NULL;
    int rc = strcmp(path, ":memory:") == 0 ? ERR_OK : create_private(path, e);
    if (rc == ERR_OK)
        rc = db_open_flags(out, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, e);
    if (rc != ERR_OK)
        return rc;
    const char *pragmas[] = {
        journal_pragma(),
        "PRAGMA foreign_keys=ON",
        sync == DB_SYNC_FULL ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
        "PRAGMA trusted_schema=OFF",
        "PRAGMA cache_size=-16000",
    };
    for (size_t i = 0; rc == ERR_OK && i < sizeof pragmas / sizeof pragmas[0]; i++)
        rc = db_exec(*out, pragmas[i], e);
    if (rc != ERR_OK) {
        db_close(*out);
        *out = NULL;
    }
    return rc;
}

int db_open_readonly(struct db **out, const char *path, struct err *e)
{
    int rc = db_open_flags(out, path, SQLITE_OPEN_READONLY, e);
    if (rc != ERR_OK)
        return rc;
    /* Opening is lazy: only a read shows whether this is a database at all. */
    rc = db_exec(*out, "PRAGMA schema_version", e);
    if (rc != ERR_OK) {
        db_close(*out);
        *out = NULL;
    }
    return rc;
}

void db_close(struct db *d)
{
    if (!d)
        return;
    while (d->first) {
        struct db_stmt *s = d->first;
        d->first = s->next;
        sqlite3_finalize(s->handle);
        free(s);
    }
    sqlite3_close(d->handle);
    free(d->path);
    free(d);
}

static int on_progress(void *ctx)
{
    const struct db_stop *stop = ctx;
    return stop->is_asked(stop->ctx);
}

void db_stop_when(struct db *d, const struct db_stop *stop)
{
    /* The handler only reads it: the cast takes nothing from anybody. */
    sqlite3_progress_handler(d->handle, STOP_EVERY, stop ? on_progress : NULL, (void *)stop);
}

int db_exec(struct db *d, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(d->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ERR_OK : fail(d, rc, sql, e);
}

static int run_kept(struct db *d, struct db_stmt **kept, const char *sql, struct err *e)
{
    int rc = *kept ? ERR_OK : db_prepare(d, kept, sql, e);
    return rc == ERR_OK ? db_run(*kept, NULL, e) : rc;
}

int db_begin(struct db *d, struct err *e)
{
    return run_kept(d, &d->begin, "BEGIN IMMEDIATE", e);
}

int db_commit(struct db *d, struct err *e)
{
    return run_kept(d, &d->commit, "COMMIT", e);
}

void db_rollback(struct db *d)
{
    if (!sqlite3_get_autocommit(d->handle))
        sqlite3_exec(d->handle, "ROLLBACK", NULL, NULL, NULL);
}

static int migration_number(struct db *d, int64_t *out, struct err *e)
{
    struct db_stmt *s;
    int rc = db_prepare(d, &s, "PRAGMA user_version", e);
    if (rc == ERR_OK)
        rc = db_step(s, e);
    if (rc != ERR_OK)
        return rc;
    *out = db_col_i64(s, 0);
    db_reset(s);
    return ERR_OK;
}

static int apply(struct db *d, const struct db_migration *m, struct err *e)
{
    char pragma[64];
    sqlite3_snprintf(sizeof pragma, pragma, "PRAGMA user_version=%u", m->number);
    int rc = db_begin(d, e);
    if (rc != ERR_OK)
        return rc;
    TRY(db_exec(d, m->sql, e));
    TRY(db_exec(d, pragma, e));
    TRY(db_commit(d, e));
    return ERR_OK;
out:
    db_rollback(d);
    err_wrap(e, "migration %s", m->name);
    return rc;
}

int db_migrate(struct db *d, const struct db_migration *m, size_t n, struct err *e)
{
    int64_t have;
    int rc = migration_number(d, &have, e);
    if (rc != ERR_OK)
        return rc;
    if (have > (int64_t)n) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: written by a newer version (schema %lld, this one knows %zu); use that "
                       "version or another file",
                       d->path, (long long)have, n);
    }
    for (size_t i = (size_t)(have < 0 ? 0 : have); rc == ERR_OK && i < n; i++) {
        if (m[i].number != i + 1)
            return err_set(e, ERR_BUG, "migration %s: number %u, expected %zu", m[i].name,
                           m[i].number, i + 1);
        rc = apply(d, &m[i], e);
    }
    return rc;
}

int db_prepare(struct db *d, struct db_stmt **out, const char *sql, struct err *e)
{
    *out = NULL;
    struct db_stmt *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "%s: no memory for a statement", d->path);
    int rc = sqlite3_prepare_v3(d->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->handle, NULL);
    if (rc != SQLITE_OK) {
        free(s);
        return fail(d, rc, sql, e);
    }
    s->db = d;
    s->next = d->first;
    d->first = s;
    *out = s;
    return ERR_OK;
}

int db_add_function(struct db *d, const char *name,
                    void (*fn)(sqlite3_context *, int, sqlite3_value **), void *ctx,
                    void (*free_ctx)(void *), struct err *e)
{
    int rc = sqlite3_create_function_v2(d->handle, name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, ctx,
                                        fn, NULL, NULL, free_ctx);
    return rc == SQLITE_OK ? ERR_OK : fail(d, rc, name, e);
}

/* A failing bind is a wrong index or no memory: the step then reports a NULL where none may be. */
void db_bind_i64(struct db_stmt *s, int i, int64_t v)
{
    sqlite3_bind_int64(s->handle, i, v);
}

void db_bind_f64(struct db_stmt *s, int i, double v)
{
    if (isnan(v))
        sqlite3_bind_null(s->handle, i);
    else
        sqlite3_bind_double(s->handle, i, v);
}

void db_bind_str(struct db_stmt *s, int i, struct str v)
{
    if (v.p)
        sqlite3_bind_text64(s->handle, i, v.p, v.n, SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(s->handle, i);
}

void db_bind_blob(struct db_stmt *s, int i, struct str bytes)
{
    sqlite3_bind_blob64(s->handle, i, bytes.p ? bytes.p : "", bytes.n, SQLITE_STATIC);
}

void db_bind_null(struct db_stmt *s, int i)
{
    sqlite3_bind_null(s->handle, i);
}

int db_run(struct db_stmt *s, int64_t *changes, struct err *e)
{
    sqlite3_int64 before = sqlite3_total_changes64(s->db->handle);
    int rc;
    do
        rc = sqlite3_step(s->handle);
    while (rc == SQLITE_ROW);
    int code = rc == SQLITE_DONE ? ERR_OK : fail(s->db, rc, sqlite3_sql(s->handle), e);
    sqlite3_reset(s->handle);
    if (changes)
        *changes = sqlite3_total_changes64(s->db->handle) - before;
    return code;
}

int db_step(struct db_stmt *s, struct err *e)
{
    int rc = sqlite3_step(s->handle);
    if (rc == SQLITE_ROW)
        return ERR_OK;
    int code = rc == SQLITE_DONE ? err_set(e, ERR_NOT_FOUND, "%s: no such row", s->db->path)
                                 : fail(s->db, rc, sqlite3_sql(s->handle), e);
    sqlite3_reset(s->handle);
    return code;
}

void db_reset(struct db_stmt *s)
{
    sqlite3_reset(s->handle);
}

int64_t db_col_i64(struct db_stmt *s, int i)
{
    return sqlite3_column_int64(s->handle, i);
}

double db_col_f64(struct db_stmt *s, int i)
{
    return db_col_is_null(s, i) ? NAN : sqlite3_column_double(s->handle, i);
}

/* SQLite copies a text to end it with a NUL, which a str needs not. The length first: it turns what
 * is no text in UTF-8 into one, which the blob then is. Empty text is a blob of no address. */
struct str db_col_str(struct db_stmt *s, int i)
{
    size_t n = (size_t)sqlite3_column_bytes(s->handle, i);
    const char *p =
        n ? sqlite3_column_blob(s->handle, i) : (const char *)sqlite3_column_text(s->handle, i);
    return (struct str){p, p ? n : 0};
}

struct str db_col_blob(struct db_stmt *s, int i)
{
    const char *p = sqlite3_column_blob(s->handle, i);
    return (struct str){p, p ? (size_t)sqlite3_column_bytes(s->handle, i) : 0};
}

bool db_col_is_blob(struct db_stmt *s, int i)
{
    return sqlite3_column_type(s->handle, i) == SQLITE_BLOB;
}

bool db_col_is_null(struct db_stmt *s, int i)
{
    return sqlite3_column_type(s->handle, i) == SQLITE_NULL;
}

sqlite3 *db_handle(struct db *d)
{
    return d->handle;
}

int64_t db_last_rowid(struct db *d)
{
    return sqlite3_last_insert_rowid(d->handle);
}

bool db_is_full(const struct db *d)
{
    return d->is_full;
}
