/* A pool of items goes round: spare -> decoded -> ready -> applied -> spare.
 *
 * Threads: the receiving thread owns the socket, the packer and the item in its hand; the writer
 * owns what it took. The queues are all they share, and the count of bytes held. */
#include "controller/receiver.h"

#include "common/log.h"
#include "common/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { ITEMS = 2048, FRAME_BYTES = 16 * 1024 * 1024, LOOK_EVERY_MS = 50 };
#define HELD_BYTES      (64 * MiB)
#define KEPT_ITEM_BYTES (64 * KiB) /* an item that grew beyond gives its memory back */

struct receiver {
    struct bus_socket *socket;
    struct packer *packer;
    struct bus_message frame; /* of the call that is running */
    struct queue *spare, *ready;
    struct intake_item *item[ITEMS];
    uint32_t n_item;          /* made so far, by whoever receives: an idle one needs few */
    struct intake_item *warm; /* without a thread: the one given back last, still in the cache */
    atomic_size_t held_bytes;
    atomic_bool is_stopping;
    bool is_running;
    pthread_t thread;
};

int receiver_open(struct receiver **out, struct bus_socket *socket, struct err *e)
{
    *out = NULL;
    struct receiver *r = calloc(1, sizeof *r);
    if (!r) {
        bus_socket_close(socket);
        return err_set(e, ERR_NOMEM, "no memory to receive scores");
    }
    r->socket = socket;
    r->packer = packer_new();
    int rc = r->packer ? ERR_OK : err_set(e, ERR_NOMEM, "no memory to receive scores");
    if (rc == ERR_OK)
        rc = queue_open(&r->spare, ITEMS, false, e);
    if (rc == ERR_OK)
        rc = queue_open(&r->ready, ITEMS, true, e);
    if (rc != ERR_OK) {
        receiver_close(r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

void receiver_close(struct receiver *r)
{
    if (!r)
        return;
    atomic_store(&r->is_stopping, true);
    if (r->is_running)
        pthread_join(r->thread, NULL);
    for (uint32_t i = 0; i < r->n_item; i++) {
        intake_item_fini(r->item[i]);
        free(r->item[i]);
    }
    queue_free(r->spare);
    queue_free(r->ready);
    packer_free(r->packer);
    bus_message_free(&r->frame);
    bus_socket_close(r->socket);
    free(r);
}

/* NULL: none within the time, or no memory for another one. */
static struct intake_item *take_spare(struct receiver *r, int64_t timeout_us)
{
    struct intake_item *x = queue_try_take(r->spare);
    if (!x && r->n_item < ITEMS && (x = malloc(sizeof *x))) {
        intake_item_init(x);
        r->item[r->n_item++] = x;
    }
    return x ? x : queue_take(r->spare, timeout_us);
}

/* False: no frame that can be read came in time. */
static bool receive(struct receiver *r, int timeout_ms)
{
    struct err e = {0};
    int rc = bus_take(r->socket, timeout_ms, &r->frame, &e);
    if (rc == ERR_OK && r->frame.bytes.n > FRAME_BYTES) {
        rc = err_set(&e, ERR_INVALID, "a frame of %zu bytes; at most %d are allowed",
                     r->frame.bytes.n, FRAME_BYTES);
        bus_message_free(&r->frame);
    }
    if (rc != ERR_OK && rc != ERR_TIMEOUT)
        log_event(LOG_WARN, "intake.refused", "why=\"%s\"", e.msg);
    return rc == ERR_OK;
}

static void decode(struct receiver *r, enum packing when, struct intake_item *x)
{
    intake_decode(r->packer, r->frame.bytes, when, x);
    bus_message_free(&r->frame);
    x->held_bytes = x->arena.used_bytes;
    atomic_fetch_add(&r->held_bytes, x->held_bytes);
}

static bool has_room(struct receiver *r)
{
    struct timespec pause = {0, 1000000};
    if (atomic_load(&r->held_bytes) < HELD_BYTES)
        return true;
    nanosleep(&pause, NULL);
    return false;
}

static void *run(void *arg)
{
    struct receiver *r = arg;
    struct intake_item *x = NULL;
    while (!atomic_load(&r->is_stopping)) {
        if (!x)
            x = take_spare(r, LOOK_EVERY_MS * 1000);
        if (!x || !has_room(r) || !receive(r, LOOK_EVERY_MS))
            continue;
        decode(r, PACK_NOW, x);
        queue_try_put(r->ready, x); /* never full: as large as the pool */
        x = NULL;
    }
    return NULL;
}

int receiver_start(struct receiver *r, struct err *e)
{
    if (r->is_running)
        return ERR_OK;
    if (r->warm)
        queue_try_put(r->spare, r->warm);
    r->warm = NULL;
    if (pthread_create(&r->thread, NULL, run, r) != 0)
        return err_set(e, ERR_NOMEM, "no thread to receive scores");
    r->is_running = true;
    return ERR_OK;
}

struct intake_item *receiver_take(struct receiver *r, int timeout_ms)
{
    if (r->is_running)
        return timeout_ms ? queue_take(r->ready, (int64_t)timeout_ms * 1000)
                          : queue_try_take(r->ready);
    struct intake_item *x = r->warm ? r->warm : take_spare(r, 0);
    r->warm = NULL;
    if (x && receive(r, timeout_ms)) {
        decode(r, PACK_WHEN_NEW, x);
        return x;
    }
    r->warm = x;
    return NULL;
}

void receiver_give_back(struct receiver *r, struct intake_item *x)
{
    atomic_fetch_sub(&r->held_bytes, x->held_bytes);
    if (x->arena.used_bytes > KEPT_ITEM_BYTES)
        arena_free(&x->arena);
    if (!r->is_running && !r->warm)
        r->warm = x;
    else
        queue_try_put(r->spare, x);
}

int receiver_fd(const struct receiver *r)
{
    return r->is_running ? queue_fd(r->ready) : -1;
}

struct bus_socket *receiver_socket(const struct receiver *r)
{
    return r->socket;
}
