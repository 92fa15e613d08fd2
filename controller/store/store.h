/* controller/store/store.h - the controller's database: one writer, batched transactions.
 *
 * Commit first, act second: nothing read or promised outside may rest on a row before
 * store_commit returned. synchronous=FULL, so a committed row also survives power loss. A store
 * belongs to one thread; readers open their own with store_open_readonly. Everything here blocks on
 * the disk. Errors: ERR_IO (db_is_full tells a full disk), ERR_CORRUPT. */
#ifndef CONTROLLER_STORE_STORE_H
#define CONTROLLER_STORE_STORE_H

#include "common/db.h"

struct store;

/* Creates the file when absent and brings the tables up to date. ERR_CONFLICT: another process has
 * it open for writing. stop (may be NULL): db_stop_when; a table that was brought up to date stays
 * so. */
MUST_USE int store_open(struct store **out, const char *path, const struct db_stop *stop,
                        struct err *e);
MUST_USE int store_open_readonly(struct store **out, const char *path, struct err *e);
void store_close(struct store *s);

MUST_USE int store_begin(struct store *s, struct err *e);
MUST_USE int store_commit(struct store *s, struct err *e);
/* Also forgets the places in the global order that were handed out since store_begin. */
void store_rollback(struct store *s);

/* Next place in the order that scored rows and events share: 1, 2, ... Gives it away. */
MUST_USE int store_next_ord(struct store *s, uint64_t *out, struct err *e);
/* Last place that was given away; 0 = none. */
MUST_USE int store_last_ord(struct store *s, uint64_t *out, struct err *e);

/* A statement prepared once; sql must be a literal (it is found again by its address). */
MUST_USE int store_statement(struct store *s, const char *sql, struct db_stmt **out, struct err *e);
/* First column of the first row of a query without parameters; 0 when there is none. */
MUST_USE int store_number(struct store *s, const char *sql, int64_t *out, struct err *e);
struct db *store_db(struct store *s);

/* Named values that are neither rows nor decisions: versions, salts. *out is copied into the
 * arena; ERR_NOT_FOUND when unset. */
MUST_USE int store_setting_get(struct store *s, const char *key, struct arena *a, struct str *out,
                               struct err *e);
MUST_USE int store_setting_put(struct store *s, const char *key, struct str value, struct err *e);

#endif
