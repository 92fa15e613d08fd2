/* The online backup API (https://www.sqlite.org/backup.html). The source is held as one read
 * snapshot of a WAL database, so the copy never has to begin again when rows come. */
#include "common/db_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { PAGES_A_STEP = 1024 };

static int create_new(const char *path, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ERR_CONFLICT, "%s is there already: give a new name", path);
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno, "cannot write %s", path);
    close(fd);
    return ERR_OK;
}

static int copy(sqlite3 *to, sqlite3 *from, const char *path, db_progress_fn *fn, void *ctx,
                struct err *e)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    int rc = b ? SQLITE_OK : sqlite3_errcode(to);
    while (b && (rc = sqlite3_backup_step(b, PAGES_A_STEP)) == SQLITE_OK) {
        int total = sqlite3_backup_pagecount(b);
        if (fn)
            fn(ctx, (uint64_t)(total - sqlite3_backup_remaining(b)), (uint64_t)total);
    }
    int end = sqlite3_backup_finish(b);
    if (rc == SQLITE_DONE && end == SQLITE_OK)
        return ERR_OK;
    return err_set(e, ERR_IO, "cannot copy to %s: %s", path, sqlite3_errstr(rc));
}

int db_backup(struct db *from, const char *path, db_progress_fn *fn, void *ctx, struct err *e)
{
    struct db *to = NULL;
    int rc = create_new(path, e);
    if (rc != ERR_OK)
        return rc;
    TRY(db_exec(from, "BEGIN; SELECT count(*) FROM sqlite_schema", e)); /* the snapshot */
    TRY(db_open(&to, path, DB_SYNC_FULL, e));
    TRY(copy(db_handle(to), db_handle(from), path, fn, ctx, e));
    TRY(db_exec(to, "PRAGMA journal_mode=DELETE", e)); /* one file, to be carried away */
out:
    db_close(to);
    db_rollback(from);
    if (rc != ERR_OK)
        unlink(path);
    return rc;
}

static int first_finding(struct db *d, const char *sql, const char *good, struct err *e)
{
    struct db_stmt *q;
    int rc = db_prepare(d, &q, sql, e);
    if (rc != ERR_OK)
        return rc;
    rc = db_step(q, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    struct str text = rc == ERR_OK ? db_col_str(q, 0) : (struct str){0};
    if (rc == ERR_OK && !(good && str_eq_c(text, good)))
        rc = err_set(e, ERR_CORRUPT, "%s: " STR_FMT, sql, STR_ARG(str_slice(text, 0, 180)));
    db_reset(q);
    return rc;
}

int db_check(struct db *d, struct err *e)
{
    int rc = first_finding(d, "PRAGMA integrity_check(1)", "ok", e);
    return rc == ERR_OK ? first_finding(d, "PRAGMA foreign_key_check", NULL, e) : rc;
}
