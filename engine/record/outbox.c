/* The writer thread around the store. Items come through one queue; a batch is what waits there. A
 * transaction that fails is rolled back with the store's counters, so sequence numbers are used
 * only by rows that are really there. */
#include "engine/record/outbox.h"

#include "common/log.h"
#include "common/queue.h"
#include "engine/record/outbox_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { QUEUE_ROOM = 4096, BATCH = 256 };

struct task { /* an item, or with neither output nor feedback only a wake-up */
    struct outbox_item item;
    bool is_stored, is_stop;
};

struct outbox {
    struct outbox_store store; /* writer thread */
    struct outbox_config config;
    char *path, *engine;
    pthread_t writer;
    bool started;
    struct queue *tasks, *done;
    int new_rows_fd;
    pthread_mutex_t lock; /* state, wanted_commit, desired */
    struct outbox_state state;
    uint64_t wanted_commit;
    struct buf desired;
    bool has_desired;
    struct buf text; /* writer: the record being encoded */
    struct metric *stored, *dropped, *rows;
};

static const struct metric_desc STORED = {.name = "milepost_outbox_stored_total",
                                          .help = "Records stored in the outbox.",
                                          .type = METRIC_COUNTER};
static const struct metric_desc DROPPED = {
    .name = "milepost_outbox_dropped_total",
    .help = "Records lost: the outbox was over its limit, its queue full or its disk refused.",
    .type = METRIC_COUNTER};
static const struct metric_desc ROWS = {.name = "milepost_outbox_rows",
                                        .help = "Records waiting for the controller's commit.",
                                        .type = METRIC_GAUGE};

static int encode_item(struct outbox *o, const struct outbox_item *i, struct err *e)
{
    buf_reset(&o->text);
    if (i->output) {
        i->output->engine = o->config.engine;
        i->output->epoch = o->store.epoch;
        i->output->seq = o->store.next_seq;
        return output_encode(i->output, &o->text, e);
    }
    i->feedback->engine = o->config.engine;
    i->feedback->epoch = o->store.epoch;
    i->feedback->seq = o->store.next_seq;
    return feedback_encode(i->feedback, &o->text, e);
}

/* A record that cannot be encoded (too large) is dropped alone; a database error ends the batch. */
static int store_one(struct outbox *o, struct task *t, struct err *e)
{
    if (!t->item.output && !t->item.feedback)
        return ERR_OK;
    if (encode_item(o, &t->item, e) != ERR_OK) {
        log_event(LOG_WARN, "outbox.unencodable", "err=\"%s\"", e->msg);
        return ERR_OK;
    }
    int rc = outbox_store_insert(&o->store, o->store.next_seq, buf_str(&o->text), e);
    if (rc == ERR_OK) {
        o->store.next_seq++;
        t->is_stored = true;
        if (t->item.output && t->item.output->admission >= o->store.next_admission)
            o->store.next_admission = t->item.output->admission + 1;
    }
    return rc;
}

static void take_wishes(struct outbox *o, uint64_t *commit, struct buf *desired)
{
    pthread_mutex_lock(&o->lock);
    *commit = o->wanted_commit;
    if (o->has_desired)
        buf_put_str(desired, buf_str(&o->desired));
    o->has_desired = false;
    pthread_mutex_unlock(&o->lock);
}

static int store_wishes(struct outbox *o, uint64_t commit, const struct buf *desired, struct err *e)
{
    int rc = ERR_OK;
    if (commit > o->store.committed_seq) {
        TRY(outbox_store_delete(&o->store, commit, false, e));
        o->store.committed_seq = commit;
    }
    if (desired->n)
        TRY(outbox_store_set(&o->store, "desired", buf_str(desired), e));
out:
    return rc;
}

static int write_batch(struct outbox *o, struct task **tasks, size_t n, uint64_t commit,
                       const struct buf *desired, struct err *e)
{
    int rc;
    TRY(db_begin(o->store.db, e));
    TRY(store_wishes(o, commit, desired, e));
    for (size_t i = 0; i < n; i++)
        TRY(store_one(o, tasks[i], e));
    TRY(outbox_store_shrink(&o->store, o->config.max_bytes, e));
    TRY(outbox_store_save_counters(&o->store, e));
    TRY(db_commit(o->store.db, e));
    return ERR_OK;
out:
    db_rollback(o->store.db);
    return rc;
}

static void publish_state(struct outbox *o)
{
    const struct outbox_store *s = &o->store;
    pthread_mutex_lock(&o->lock);
    o->state = (struct outbox_state){.epoch = s->epoch,
                                     .next_seq = s->next_seq,
                                     .oldest_seq = s->rows ? s->oldest_seq : s->next_seq,
                                     .committed_seq = s->committed_seq,
                                     .next_admission = s->next_admission,
                                     .rows = s->rows,
                                     .dropped = s->dropped,
                                     .crashes = s->crashes};
    pthread_mutex_unlock(&o->lock);
}

static void count_task(struct outbox *o, const struct task *t)
{
    bool is_record = t->item.output || t->item.feedback;
    if (is_record && o->stored)
        metric_inc(t->is_stored ? o->stored : o->dropped);
}

static void finish_tasks(struct outbox *o, struct task **tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        count_task(o, tasks[i]);
        (void)queue_put(o->done, tasks[i]);
    }
    if (o->rows)
        metric_set(o->rows, (double)o->store.rows);
    (void)!write(o->new_rows_fd, &(uint64_t){1}, 8);
}

/* A state that could not be stored waits for the next batch, unless a newer one came meanwhile; it
 * does not wake the writer, which a full disk would otherwise keep busy for nothing. */
static void put_back_desired(struct outbox *o, struct str json)
{
    pthread_mutex_lock(&o->lock);
    if (!o->has_desired) {
        buf_reset(&o->desired);
        buf_put_str(&o->desired, json);
        o->has_desired = !o->desired.failed;
    }
    pthread_mutex_unlock(&o->lock);
}

/* True when the writer shall stop. */
static bool run_batch(struct outbox *o, struct task **tasks, size_t n)
{
    struct outbox_store before = o->store;
    struct buf desired;
    struct err e = {0};
    uint64_t commit;
    bool stop = false;
    buf_init(&desired, OUTPUT_MAX_BYTES);
    take_wishes(o, &commit, &desired);
    if (write_batch(o, tasks, n, commit, &desired, &e) != ERR_OK) {
        o->store = before; /* statements and connection are the same; only numbers go back */
        for (size_t i = 0; i < n; i++)
            tasks[i]->is_stored = false;
        log_event(LOG_ERROR, "outbox.write_failed", "records=%zu err=\"%s\"", n, e.msg);
        if (desired.n)
            put_back_desired(o, buf_str(&desired));
    }
    if (o->dropped && o->store.dropped > before.dropped)
        metric_add(o->dropped, (double)(o->store.dropped - before.dropped));
    buf_free(&desired);
    for (size_t i = 0; i < n; i++)
        stop |= tasks[i]->is_stop;
    publish_state(o);
    finish_tasks(o, tasks, n);
    return stop;
}

static void *writer_main(void *arg)
{
    struct outbox *o = arg;
    struct task *tasks[BATCH];
    for (bool stop = false; !stop;) {
        size_t n = 0;
        tasks[n] = queue_take(o->tasks, -1);
        while (tasks[n] && ++n < BATCH)
            tasks[n] = queue_try_take(o->tasks);
        if (n == 0)
            break;
        stop = run_batch(o, tasks, n);
    }
    return NULL;
}

void outbox_write(struct outbox *o)
{
    struct task *tasks[BATCH];
    size_t n;
    do {
        n = 0;
        while (n < BATCH && (tasks[n] = queue_try_take(o->tasks)))
            n++;
        if (n)
            run_batch(o, tasks, n);
    } while (n == BATCH);
}

static int open_parts(struct outbox *o, const struct outbox_config *c, struct err *e)
{
    int rc;
    o->path = str_dup_c(str_from(c->path));
    o->engine = str_dup_c(c->engine);
    if (!o->path || !o->engine)
        TRY(err_set(e, ERR_NOMEM, "outbox"));
    o->config.path = o->path;
    o->config.engine = str_from(o->engine);
    buf_init(&o->text, OUTPUT_MAX_BYTES);
    buf_init(&o->desired, OUTPUT_MAX_BYTES);
    TRY(outbox_store_open(&o->store, o->path, c->sync_full, c->epoch_seed, e));
    TRY(outbox_store_begin_life(&o->store, e));
    TRY(queue_open(&o->tasks, QUEUE_ROOM, false, e));
    TRY(queue_open(&o->done, 2 * QUEUE_ROOM, true, e));
    o->new_rows_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (o->new_rows_fd < 0)
        TRY(err_set_sys(e, ERR_IO, errno, "outbox eventfd"));
    if (c->metrics) {
        o->stored = metrics_add_one(c->metrics, &STORED);
        o->dropped = metrics_add_one(c->metrics, &DROPPED);
        o->rows = metrics_add_one(c->metrics, &ROWS);
    }
    publish_state(o);
out:
    return rc;
}

int outbox_open(struct outbox **out, const struct outbox_config *c, struct err *e)
{
    *out = NULL;
    struct outbox *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(e, ERR_NOMEM, "outbox");
    o->config = *c;
    o->new_rows_fd = -1;
    pthread_mutex_init(&o->lock, NULL);
    int rc = open_parts(o, c, e);
    if (rc == ERR_OK && !c->has_no_writer && pthread_create(&o->writer, NULL, writer_main, o) != 0)
        rc = err_set(e, ERR_IO, "the outbox writer could not be started: raise the thread limit");
    o->started = rc == ERR_OK;
    if (rc != ERR_OK)
        outbox_close(o);
    else
        *out = o;
    return rc;
}

static bool send_task(struct outbox *o, const struct outbox_item *item, bool is_stop)
{
    struct task *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    if (item)
        t->item = *item;
    t->is_stop = is_stop;
    if (queue_try_put(o->tasks, t))
        return true;
    free(t);
    return false;
}

static void stop_writer(struct outbox *o)
{
    if (o->config.has_no_writer) {
        outbox_write(o);
        return;
    }
    while (!send_task(o, NULL, true))
        outbox_drain(o);
    pthread_join(o->writer, NULL);
}

static void outbox_free(struct outbox *o)
{
    queue_free(o->tasks);
    queue_free(o->done);
    outbox_store_close(&o->store);
    if (o->new_rows_fd >= 0)
        close(o->new_rows_fd);
    pthread_mutex_destroy(&o->lock);
    buf_free(&o->text);
    buf_free(&o->desired);
    free(o->path);
    free(o->engine);
    free(o);
}

void outbox_close(struct outbox *o)
{
    if (!o)
        return;
    if (o->started) {
        stop_writer(o);
        outbox_drain(o);
        outbox_store_end_life(&o->store);
    }
    outbox_free(o);
}

void outbox_kill(struct outbox *o)
{
    struct queue *const queues[] = {o->tasks, o->done};
    for (int i = 0; i < 2; i++)
        for (struct task *t; (t = queue_try_take(queues[i]));)
            free(t);
    outbox_free(o);
}

void outbox_put(struct outbox *o, const struct outbox_item *item)
{
    if (send_task(o, item, false))
        return;
    if (o->dropped)
        metric_inc(o->dropped);
    item->on_stored(item->ctx, false);
}

int outbox_fd(const struct outbox *o)
{
    return queue_fd(o->done);
}

void outbox_drain(struct outbox *o)
{
    for (struct task *t; (t = queue_try_take(o->done));) {
        if (t->item.on_stored)
            t->item.on_stored(t->item.ctx, t->is_stored);
        free(t);
    }
}

void outbox_commit(struct outbox *o, uint64_t epoch, uint64_t seq)
{
    pthread_mutex_lock(&o->lock);
    bool is_news = epoch == o->state.epoch && seq > o->wanted_commit && seq < o->state.next_seq;
    if (is_news)
        o->wanted_commit = seq;
    pthread_mutex_unlock(&o->lock);
    if (is_news)
        (void)send_task(o, NULL, false); /* a full queue: the next batch sees the wish anyway */
}

void outbox_get_state(struct outbox *o, struct outbox_state *out)
{
    pthread_mutex_lock(&o->lock);
    *out = o->state;
    pthread_mutex_unlock(&o->lock);
}

void outbox_save_desired(struct outbox *o, struct str json)
{
    pthread_mutex_lock(&o->lock);
    buf_reset(&o->desired);
    buf_put_str(&o->desired, json);
    o->has_desired = !o->desired.failed;
    pthread_mutex_unlock(&o->lock);
    (void)send_task(o, NULL, false);
}

bool outbox_load_desired(struct outbox *o, struct buf *json)
{
    struct outbox_store
        copy; /* the writer uses its own statements: read with a connection of ours */
    bool found = false;
    if (outbox_store_open(&copy, o->path, o->config.sync_full, 0, NULL) == ERR_OK) {
        found = outbox_store_get(&copy, "desired", json, NULL) == ERR_OK;
        outbox_store_close(&copy);
    }
    return found;
}

struct outbox_reader {
    struct db *db;
    struct db_stmt *next;
};

int outbox_reader_open(struct outbox_reader **out, struct outbox *o, struct err *e)
{
    int rc;
    struct outbox_reader *r = calloc(1, sizeof *r);
    *out = r;
    if (!r)
        return err_set(e, ERR_NOMEM, "outbox reader");
    TRY(db_open_readonly(&r->db, o->path, e));
    TRY(db_prepare(r->db, &r->next,
                   "SELECT seq, json FROM output WHERE seq >= ?1 ORDER BY seq LIMIT 1", e));
    return ERR_OK;
out:
    outbox_reader_close(r);
    *out = NULL;
    return rc;
}

void outbox_reader_close(struct outbox_reader *r)
{
    if (!r)
        return;
    db_close(r->db);
    free(r);
}

int outbox_new_rows_fd(const struct outbox *o)
{
    return o->new_rows_fd;
}

int outbox_read(struct outbox_reader *r, uint64_t *seq, struct buf *json, struct err *e)
{
    db_bind_i64(r->next, 1, (int64_t)*seq);
    int rc = db_step(r->next, e);
    if (rc != ERR_OK)
        return rc;
    *seq = (uint64_t)db_col_i64(r->next, 0);
    buf_reset(json);
    buf_put_str(json, db_col_str(r->next, 1));
    db_reset(r->next);
    return buf_check(json, "outbox row", e);
}
