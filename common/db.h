/* common/db.h - SQLite with our settings. The only file that knows sqlite3_open and pragmas.
 *
 * A connection and its statements belong to one thread. WAL, foreign keys on, busy timeout. */
#ifndef COMMON_DB_H
#define COMMON_DB_H

#include "common/arena.h"

#include <sqlite3.h>

struct db;
struct db_stmt; /* prepared once, kept */

enum db_sync { DB_SYNC_NORMAL, DB_SYNC_FULL };

struct db_migration {
    uint32_t number;  /* 1, 2, ... without gaps */
    const char *name; /* "0001_base" */
    const char *sql;
};

/* Spares every allocation of SQLite a lock that all threads share. By main, before any database;
 * a process that never calls it is only slower. */
void db_setup(void);
/* From now on this process's databases lie in its memory, shared by path and gone with the last
 * connection (the files made stay empty): for simulation. Before any is opened. */
void db_keep_in_memory(void);
/* Creates the file (0600) when absent. ERR_IO names path and what to do (read-only folder, disk
 * full); ERR_CORRUPT when it is not a database. */
MUST_USE int db_open(struct db **out, const char *path, enum db_sync sync, struct err *e);
MUST_USE int db_open_readonly(struct db **out, const char *path, struct err *e);
void db_close(struct db *d); /* finalises its statements */
/* Applies what is missing, each in a transaction; a database newer than the table is refused. */
MUST_USE int db_migrate(struct db *d, const struct db_migration *m, size_t n, struct err *e);

/* Asked every few milliseconds of a statement's work; true ends it with ERR_CANCELLED. Stays valid
 * as long as it is set; NULL = no longer asked. */
struct db_stop {
    bool (*is_asked)(void *ctx);
    void *ctx;
};
void db_stop_when(struct db *d, const struct db_stop *stop);

MUST_USE int db_exec(struct db *d, const char *sql, struct err *e);
MUST_USE int db_begin(struct db *d, struct err *e); /* IMMEDIATE */
MUST_USE int db_commit(struct db *d, struct err *e);
void db_rollback(struct db *d);

MUST_USE int db_prepare(struct db *d, struct db_stmt **out, const char *sql, struct err *e);
/* A function of one value for this connection's SQL; the same answer for the same value. ctx (may
 * be NULL) is its sqlite3_user_data, freed with the connection, or at once when this fails. */
MUST_USE int db_add_function(struct db *d, const char *name,
                             void (*fn)(sqlite3_context *, int, sqlite3_value **), void *ctx,
                             void (*free_ctx)(void *), struct err *e);
/* Parameters are numbered from 1; bound text must live until the step. */
void db_bind_i64(struct db_stmt *s, int i, int64_t v);
void db_bind_f64(struct db_stmt *s, int i, double v);     /* NaN binds NULL */
void db_bind_str(struct db_stmt *s, int i, struct str v); /* p NULL binds NULL */
void db_bind_blob(struct db_stmt *s, int i, struct str bytes);
void db_bind_null(struct db_stmt *s, int i);
/* Runs to the end and resets. *changes (may be NULL) = rows changed. */
MUST_USE int db_run(struct db_stmt *s, int64_t *changes, struct err *e);
/* One row: ERR_OK, or ERR_NOT_FOUND at the end (then reset). Columns from 0, borrowed till next. */
MUST_USE int db_step(struct db_stmt *s, struct err *e);
void db_reset(struct db_stmt *s);
int64_t db_col_i64(struct db_stmt *s, int i);
double db_col_f64(struct db_stmt *s, int i);
struct str db_col_str(struct db_stmt *s, int i);  /* p NULL for NULL */
struct str db_col_blob(struct db_stmt *s, int i); /* the bytes of any value; p NULL for NULL */
bool db_col_is_blob(struct db_stmt *s, int i);
bool db_col_is_null(struct db_stmt *s, int i);
sqlite3 *db_handle(struct db *d); /* for the files beside this one */
int64_t db_last_rowid(struct db *d);
/* True when the last error was a full disk (SQLITE_FULL) or an I/O error worth retrying. */
bool db_is_full(const struct db *d);

#endif
