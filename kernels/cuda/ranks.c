/* A device among the ranks of one model: sums and shares of buffers, in the stream of the ops.
 * After an error the group is over; run tells it, then and later. */
#include "kernels/cuda/device.h"

#include "common/log.h"
#include "kernels/comm/comm.h"

int device_join(struct kern_device *d, struct comm *host, struct err *e)
{
    device_graphs_try(d);
    return comm_open_staged(&d->ranks.comm, host, d->dev, d->stream, e);
}

int device_join_nccl(struct kern_device *d, struct comm *host, struct err *e)
{
#ifdef MILEPOST_WITH_NCCL
    struct err why;
    device_graphs_try(d);
    int rc = comm_open_nccl(&d->ranks.comm, host, d->dev, d->stream, &why);
    if (rc == ERR_OK)
        return ERR_OK;
    if (rc != ERR_UNSUPPORTED)
        return err_set(e, why.code, "%s", why.msg);
    log_event(LOG_WARN, "kernels.ranks_through_host", "err=\"%s\"", why.msg);
#endif
    return device_join(d, host, e);
}

void device_leave(struct kern_device *d)
{
    if (d->ranks.comm)
        d->ranks.comm->ops->leave(d->ranks.comm);
    d->ranks.comm = NULL;
}

static bool begin_collective(struct kern_device *d)
{
    if (d->ranks.error.code != ERR_OK)
        return false;
    if (device_graph_cut(d))
        return true;
    err_set(&d->ranks.error, ERR_DEVICE, "backend %s: a part of a step could not be captured",
            d->dev->name);
    return false;
}

void device_sum(struct kern_device *d, const struct kern_buffer *from, struct kern_buffer *to,
                uint32_t n_tok)
{
    struct comm *c = d->ranks.comm;
    if (!begin_collective(d))
        return;
    (void)!c->ops->all_reduce(c, from->data, to->data, (size_t)n_tok * from->width, COMM_F32,
                              &d->ranks.error);
    device_graph_resume(d);
}

void device_share(struct kern_device *d, struct kern_buffer *x, uint32_t n_tok)
{
    struct comm *c = d->ranks.comm;
    if (!begin_collective(d))
        return;
    (void)!c->ops->broadcast(c, x->data, (size_t)n_tok * x->width, COMM_F32, 0, &d->ranks.error);
    device_graph_resume(d);
}

/* The first rank's copies put rows together: a few for each row, and rows are few. */
const float *device_gather(struct kern_device *d, uint32_t n_row, uint32_t n_mine)
{
    struct comm *c = d->ranks.comm;
    const struct draw_stage *s = &d->draw;
    size_t n_send[COMM_MAX_RANKS] = {n_row * (size_t)n_mine}, n_recv[COMM_MAX_RANKS] = {0};
    const float *from = s->parts;
    for (uint32_t r = 0; r < c->size && c->rank == 0; r++)
        n_recv[r] = n_row * s->part[r];
    if (d->ranks.error.code != ERR_OK ||
        c->ops->all_to_all_v(c, d->logits, n_send, s->parts, n_recv, COMM_F32, &d->ranks.error) !=
            ERR_OK)
        return NULL;
    for (size_t r = 0, column = 0; r < c->size && c->rank == 0; column += s->part[r++])
        for (size_t i = 0; i < n_row; i++, from += s->part[r])
            d->dev->copy(s->joined + i * s->n_vocab + column, from, s->part[r] * sizeof *from,
                         DEV_ON_DEVICE, d->stream);
    return c->rank == 0 ? s->joined : NULL;
}

uint64_t device_comm_us(const struct kern_device *d)
{
    return d->ranks.comm ? d->ranks.comm->ops->busy_us(d->ranks.comm) : 0;
}

/* Sums through the host are done inside start, and with them what the stream did before. */
bool device_can_overlap(const struct kern_device *d)
{
    return !d->ranks.comm || !d->ranks.comm->ops->is_at_once;
}

int device_ranks_finish(struct kern_device *d, struct dev_event *end, struct err *e)
{
    struct comm *c = d->ranks.comm;
    if (c && d->ranks.error.code == ERR_OK)
        (void)!c->ops->finish(c, end, &d->ranks.error);
    if (d->ranks.error.code == ERR_OK)
        return ERR_OK;
    return err_set(e, ERR_DEVICE, "ranks: %s", d->ranks.error.msg);
}
