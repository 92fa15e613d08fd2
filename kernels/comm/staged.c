/* A group of device memory over one of host memory: every call copies what it sends to the host,
 * talks there, and copies what it got back. It waits for the stream, so that `finish` has nothing
 * left to wait for. For devices without a collective library of their own, and the emulator. */
#include "common/clock.h"
#include "kernels/comm/comm.h"
#include "kernels/cuda/dev.h"

#include <stdlib.h>

struct staged {
    struct comm base;
    struct comm *host;
    const struct dev_ops *dev;
    struct dev_stream *stream;
    void *send, *recv; /* host memory */
    size_t send_bytes, recv_bytes;
    uint64_t busy_us;
};

static bool grow(const struct staged *s, void **p, size_t *have, size_t want)
{
    if (want <= *have)
        return true;
    s->dev->host_release(*p);
    *p = s->dev->host_alloc(want);
    *have = *p ? want : 0;
    return *p != NULL;
}

/* One call: where the device has what is sent and wants what comes, and how the host does it. */
struct call {
    const void *send;
    void *recv;
    size_t n, send_bytes, recv_bytes;
    enum comm_type type;
    uint32_t root;
    const size_t *n_send, *n_recv;
    int (*run)(struct staged *s, const struct call *c, struct err *e);
};

static int talk(struct staged *s, const struct call *c, struct err *e)
{
    struct mono start;
    int rc = s->dev->sync(s->stream, e); /* the work before is no communication */
    if (rc != ERR_OK)
        return rc;
    start = clock_mono(&CLOCK_REAL);
    if (!grow(s, &s->send, &s->send_bytes, c->send_bytes) ||
        !grow(s, &s->recv, &s->recv_bytes, c->recv_bytes))
        return err_set(e, ERR_NOMEM, "ranks: %zu bytes of host memory", c->send_bytes);
    if (c->send_bytes)
        s->dev->copy(s->send, c->send, c->send_bytes, DEV_TO_HOST, s->stream);
    TRY(s->dev->sync(s->stream, e));
    TRY(c->run(s, c, e));
    if (c->recv_bytes)
        s->dev->copy(c->recv, s->recv, c->recv_bytes, DEV_TO_DEVICE, s->stream);
    rc = s->dev->sync(s->stream, e); /* the next call writes to s->recv */
out:
    s->busy_us += mono_since_us(start, clock_mono(&CLOCK_REAL));
    return rc;
}

static int run_all_reduce(struct staged *s, const struct call *c, struct err *e)
{
    return s->host->ops->all_reduce(s->host, s->send, s->recv, c->n, c->type, e);
}

static int staged_all_reduce(struct comm *c, const void *send, void *recv, size_t n,
                             enum comm_type t, struct err *e)
{
    size_t bytes = n * comm_type_bytes(t);
    const struct call call = {.send = send,
                              .recv = recv,
                              .n = n,
                              .send_bytes = bytes,
                              .recv_bytes = bytes,
                              .type = t,
                              .run = run_all_reduce};
    return talk((struct staged *)c, &call, e);
}

static int run_all_gather(struct staged *s, const struct call *c, struct err *e)
{
    return s->host->ops->all_gather(s->host, s->send, c->n, s->recv, c->type, e);
}

static int staged_all_gather(struct comm *c, const void *send, size_t n, void *recv,
                             enum comm_type t, struct err *e)
{
    size_t bytes = n * comm_type_bytes(t);
    const struct call call = {.send = send,
                              .recv = recv,
                              .n = n,
                              .send_bytes = bytes,
                              .recv_bytes = bytes * c->size,
                              .type = t,
                              .run = run_all_gather};
    return talk((struct staged *)c, &call, e);
}

static int run_reduce_scatter(struct staged *s, const struct call *c, struct err *e)
{
    return s->host->ops->reduce_scatter(s->host, s->send, c->n, s->recv, c->type, e);
}

static int staged_reduce_scatter(struct comm *c, const void *send, size_t n, void *recv,
                                 enum comm_type t, struct err *e)
{
    size_t bytes = n * comm_type_bytes(t);
    const struct call call = {.send = send,
                              .recv = recv,
                              .n = n,
                              .send_bytes = bytes * c->size,
                              .recv_bytes = bytes,
                              .type = t,
                              .run = run_reduce_scatter};
    return talk((struct staged *)c, &call, e);
}

static int run_all_to_all_v(struct staged *s, const struct call *c, struct err *e)
{
    return s->host->ops->all_to_all_v(s->host, s->send, c->n_send, s->recv, c->n_recv, c->type, e);
}

static int staged_all_to_all_v(struct comm *c, const void *send, const size_t *n_send, void *recv,
                               const size_t *n_recv, enum comm_type t, struct err *e)
{
    struct call call = {.send = send,
                        .recv = recv,
                        .type = t,
                        .n_send = n_send,
                        .n_recv = n_recv,
                        .run = run_all_to_all_v};
    for (uint32_t r = 0; r < c->size; r++) {
        call.send_bytes += n_send[r] * comm_type_bytes(t);
        call.recv_bytes += n_recv[r] * comm_type_bytes(t);
    }
    return talk((struct staged *)c, &call, e);
}

static int run_broadcast(struct staged *s, const struct call *c, struct err *e)
{
    return s->host->ops->broadcast(s->host, s->send, c->n, c->type, c->root, e);
}

static int staged_broadcast(struct comm *c, void *data, size_t n, enum comm_type t, uint32_t root,
                            struct err *e)
{
    struct staged *s = (struct staged *)c;
    const struct call call = {.send = data,
                              .n = n,
                              .send_bytes = n * comm_type_bytes(t),
                              .type = t,
                              .root = root,
                              .run = run_broadcast};
    int rc = talk(s, &call, e);
    if (rc == ERR_OK && c->rank != root) {
        s->dev->copy(data, s->send, call.send_bytes, DEV_TO_DEVICE, s->stream);
        rc = s->dev->sync(s->stream, e);
    }
    return rc;
}

static int staged_barrier(struct comm *c, struct err *e)
{
    struct staged *s = (struct staged *)c;
    int rc = s->dev->sync(s->stream, e);
    return rc == ERR_OK ? s->host->ops->barrier(s->host, e) : rc;
}

static void staged_abort(struct comm *c, const char *why)
{
    struct comm *host = ((struct staged *)c)->host;
    host->ops->abort(host, why);
}

static int staged_error(struct comm *c, struct err *e)
{
    struct comm *host = ((struct staged *)c)->host;
    return host->ops->error(host, e);
}

static int staged_finish(struct comm *c, struct dev_event *end, struct err *e)
{
    struct staged *s = (struct staged *)c;
    int rc = staged_error(c, e);
    if (rc != ERR_OK)
        return rc;
    return end ? s->dev->await(end, e) : s->dev->sync(s->stream, e);
}

static uint64_t staged_busy_us(const struct comm *c)
{
    return ((const struct staged *)c)->busy_us;
}

static void staged_leave(struct comm *c)
{
    struct staged *s = (struct staged *)c;
    if (!s)
        return;
    s->dev->host_release(s->send);
    s->dev->host_release(s->recv);
    free(s);
}

static const struct comm_ops STAGED = {
    .name = "staged",
    .summary = "device memory, through the host's",
    .is_of_device = true,
    .is_at_once = true,
    .leave = staged_leave,
    .all_reduce = staged_all_reduce,
    .all_gather = staged_all_gather,
    .reduce_scatter = staged_reduce_scatter,
    .all_to_all_v = staged_all_to_all_v,
    .broadcast = staged_broadcast,
    .barrier = staged_barrier,
    .abort = staged_abort,
    .error = staged_error,
    .finish = staged_finish,
    .busy_us = staged_busy_us,
};

int comm_open_staged(struct comm **out, struct comm *host, const struct dev_ops *dev,
                     struct dev_stream *stream, struct err *e)
{
    struct staged *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_set(e, ERR_NOMEM, "ranks");
    s->base = (struct comm){&STAGED, host->rank, host->size};
    s->host = host;
    s->dev = dev;
    s->stream = stream;
    *out = &s->base;
    return ERR_OK;
}
