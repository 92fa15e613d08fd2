/* engine/record/outbox_store.h - the outbox's rows in SQLite. Writer thread only after open. */
#ifndef ENGINE_RECORD_OUTBOX_STORE_H
#define ENGINE_RECORD_OUTBOX_STORE_H

#include "common/db.h"
#include "engine/record/outbox.h"

struct outbox_store {
    struct db *db;
    struct db_stmt *insert, *set_meta, *get_meta, *drop_to, *oldest, *weigh;
    uint64_t epoch, next_seq, oldest_seq, rows, bytes, dropped, committed_seq, next_admission;
    uint64_t crashes;
    struct {
        uint64_t next_seq, dropped, committed_seq, next_admission;
    } saved; /* what the file says of them */
};

/* epoch_seed: the epoch of a file that has none. */
MUST_USE int outbox_store_open(struct outbox_store *s, const char *path, bool sync_full,
                               uint64_t epoch_seed, struct err *e);
void outbox_store_close(struct outbox_store *s);
/* This process begins to use the file: an earlier one that did not end it well crashed. */
MUST_USE int outbox_store_begin_life(struct outbox_store *s, struct err *e);
void outbox_store_end_life(struct outbox_store *s);
MUST_USE int outbox_store_insert(struct outbox_store *s, uint64_t seq, struct str json,
                                 struct err *e);
/* Deletes rows up to seq; they were committed, or are dropped (then counted). */
MUST_USE int outbox_store_delete(struct outbox_store *s, uint64_t seq, bool is_drop, struct err *e);
/* Drops the oldest rows until at most max_bytes are held. */
MUST_USE int outbox_store_shrink(struct outbox_store *s, uint64_t max_bytes, struct err *e);
/* What changed of next_seq, dropped, committed_seq and next_admission into the file; part of every
 * transaction that changes them. */
MUST_USE int outbox_store_save_counters(struct outbox_store *s, struct err *e);
MUST_USE int outbox_store_set(struct outbox_store *s, const char *key, struct str value,
                              struct err *e);
MUST_USE int outbox_store_get(struct outbox_store *s, const char *key, struct buf *value,
                              struct err *e);

#endif
