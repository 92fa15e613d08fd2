/* common/db_backup.h - a copy of a database while others write it, and whether a file is sound. */
#ifndef COMMON_DB_BACKUP_H
#define COMMON_DB_BACKUP_H

#include "common/db.h"

/* Pages copied so far of all; may be NULL. */
typedef void db_progress_fn(void *ctx, uint64_t done, uint64_t total);
/* One snapshot into a new file (0600); what is written meanwhile is not in it. Readers and writers
 * go on. ERR_CONFLICT: the file is there already. A failed copy is removed. */
MUST_USE int db_backup(struct db *from, const char *path, db_progress_fn *fn, void *ctx,
                       struct err *e);
/* PRAGMA integrity_check and foreign_key_check. ERR_CORRUPT says what was found first. */
MUST_USE int db_check(struct db *d, struct err *e);

#endif
