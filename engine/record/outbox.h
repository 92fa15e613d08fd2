/* engine/record/outbox.h - every finished output until the controller has committed it.
 *
 * A SQLite file written by one thread, a batch a transaction. Sequence numbers are given when a row
 * is stored, so they have no gap within an epoch (one life of the file), also over restarts. The
 * file is bounded: past its limit the oldest rows are dropped and counted. A disk that refuses
 * costs the record, counted, never the client. */
#ifndef ENGINE_RECORD_OUTBOX_H
#define ENGINE_RECORD_OUTBOX_H

#include "common/metrics.h"
#include "schemas/feedback.h"
#include "schemas/output.h"

struct outbox;

struct outbox_config {
    const char *path;
    bool sync_full;
    uint64_t max_bytes;
    struct str engine;       /* id written into every record */
    uint64_t epoch_seed;     /* a new file's epoch comes from it: rng_entropy() where it serves */
    struct metrics *metrics; /* may be NULL */
    bool has_no_writer;      /* no thread: the caller's own writes, in outbox_write (simulation) */
};

/* One thing to store. It, and all it points to, must live until on_stored ran. */
struct outbox_item {
    struct output *output; /* one of the two; engine, epoch and seq are filled in */
    struct feedback *feedback;
    /* On the thread that calls outbox_drain. is_stored false: counted as dropped. */
    void (*on_stored)(void *ctx, bool is_stored);
    void *ctx;
};

struct outbox_state {
    uint64_t epoch, next_seq, oldest_seq; /* oldest row held; next_seq when there is none */
    uint64_t committed_seq;
    uint64_t next_admission; /* above that of every record ever stored in this epoch, from 1 */
    uint64_t rows, dropped;
    uint64_t crashes; /* lives of this file that did not end with outbox_close */
};

/* ERR_IO: path and what to do; ERR_CORRUPT: the file is no outbox. Starts the writer thread. */
MUST_USE int outbox_open(struct outbox **out, const struct outbox_config *c, struct err *e);
/* Stores what is queued, runs the callbacks left, closes. */
void outbox_close(struct outbox *o);
/* Without a writer: stores what waits, in as many transactions as that takes. */
void outbox_write(struct outbox *o);
/* Without a writer: what kill -9 leaves. What waits is gone, no callback runs. */
void outbox_kill(struct outbox *o);
/* Owner thread; never blocks. A full queue calls on_stored(false) at once. */
void outbox_put(struct outbox *o, const struct outbox_item *item);
int outbox_fd(const struct outbox *o); /* readable when drain has work */
void outbox_drain(struct outbox *o);

/* Any thread. Rows up to seq may go; ignored for another epoch. */
void outbox_commit(struct outbox *o, uint64_t epoch, uint64_t seq);
void outbox_get_state(struct outbox *o, struct outbox_state *out);
/* The last applied desired state, for a restart without a controller. Save: any thread, soon. */
void outbox_save_desired(struct outbox *o, struct str json);
/* Before other threads use it. False when none is stored. */
bool outbox_load_desired(struct outbox *o, struct buf *json);

/* A reader for the publisher's thread, on its own connection. */
struct outbox_reader;
MUST_USE int outbox_reader_open(struct outbox_reader **out, struct outbox *o, struct err *e);
void outbox_reader_close(struct outbox_reader *r);
int outbox_new_rows_fd(const struct outbox *o); /* readable after rows were stored; read 8 bytes */
/* The first row with seq >= *seq: sets *seq and json (overwritten). ERR_NOT_FOUND: none. */
MUST_USE int outbox_read(struct outbox_reader *r, uint64_t *seq, struct buf *json, struct err *e);

#endif
