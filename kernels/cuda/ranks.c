/* A device among the ranks of one model: sums and shares of buffers, in the stream of the ops.
 * After an error the group is over; run tells it, then and later. */
#include "kernels/cuda/device.h"

#include "common/log.h"
#include "kernels/comm/comm.h"

int device_join(struct kern_device *d, struct comm *host, struct err *e)
{
    return comm_open_staged(&d->ranks.comm, host, d->dev, d->stream, e);
}

int device_join_nccl(struct kern_device *d, struct comm *host, struct err *e)
{
#ifdef MILEPOST_WITH_NCCL
    struct err why;
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

void device_sum(struct kern_device *d, const struct kern_buffer *from, struct kern_buffer *to,
                uint32_t n_tok)
{
    struct comm *c = d->ranks.comm;
    if (d->ranks.error.code == ERR_OK)
        (void)!c->ops->all_reduce(c, from->data, to->data, (size_t)n_tok * from->width, COMM_F32,
                                  &d->ranks.error);
}

void device_share(struct kern_device *d, struct kern_buffer *x, uint32_t n_tok)
{
    struct comm *c = d->ranks.comm;
    if (d->ranks.error.code == ERR_OK)
        (void)!c->ops->broadcast(c, x->data, (size_t)n_tok * x->width, COMM_F32, 0,
                                 &d->ranks.error);
}

uint64_t device_comm_us(const struct kern_device *d)
{
    return d->ranks.comm ? d->ranks.comm->ops->busy_us(d->ranks.comm) : 0;
}

int device_ranks_finish(struct kern_device *d, struct err *e)
{
    struct comm *c = d->ranks.comm;
    if (c && d->ranks.error.code == ERR_OK)
        (void)!c->ops->finish(c, &d->ranks.error);
    if (d->ranks.error.code == ERR_OK)
        return ERR_OK;
    return err_set(e, ERR_DEVICE, "ranks: %s", d->ranks.error.msg);
}
