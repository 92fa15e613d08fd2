/* The run of a step: the body launches on the team's first thread; the end of what it launched is
 * an event, so that the next step may be launched before it. */
#include "kernels/cuda/steps.h"

#include "kernels/cuda/device.h"

struct step_slot *device_slot(struct kern_device *d)
{
    return &d->steps.slot[d->steps.n_started % MAX_UNDER_WAY];
}

int device_steps_open(struct kern_device *d, struct err *e)
{
    for (int i = 0; i < MAX_UNDER_WAY; i++)
        if (!(d->steps.slot[i].done = d->dev->event_open()))
            return device_no_memory(d, "an event", e);
    return ERR_OK;
}

void device_steps_close(struct kern_device *d)
{
    for (int i = 0; i < MAX_UNDER_WAY; i++) {
        struct step_slot *s = &d->steps.slot[i];
        d->dev->host_release(s->stage);
        d->dev->host_release(s->row);
        d->dev->host_release(s->out);
        d->dev->host_release(s->history);
        if (s->done)
            d->dev->event_close(s->done);
    }
}

struct entered {
    struct kern_device *d;
    void (*body)(void *arg);
    void *arg;
};

static void run_entered(void *arg)
{
    const struct entered *in = arg;
    in->d->dev->enter(in->d->index);
    in->body(in->arg);
}

int device_start(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    struct entered in = {d, body, arg};
    struct step_slot *s = device_slot(d);
    if (d->steps.n_started - d->steps.n_finished == MAX_UNDER_WAY)
        return err_set(e, ERR_BUG, "backend %s: %d steps are under way", d->dev->name,
                       MAX_UNDER_WAY);
    s->is_staged = false;
    s->n_drawn = 0;
    team_run(d->team, run_entered, &in);
    if (d->graphs.has_failed) { /* a runtime that cannot capture: once more without */
        d->graphs.has_failed = false;
        d->graphs.is_again = true;
        team_run(d->team, run_entered, &in);
        d->graphs.is_again = false;
    }
    d->dev->enter(d->index); /* the caller may be another thread than open's */
    d->dev->record(s->done, d->stream);
    d->steps.n_started++;
    return ERR_OK;
}

int device_finish(struct kern_device *d, struct err *e)
{
    struct step_slot *s = &d->steps.slot[d->steps.n_finished++ % MAX_UNDER_WAY];
    d->dev->enter(d->index);
    int rc = device_ranks_finish(d, s->done, e);
    if (rc == ERR_OK)
        rc = d->dev->await(s->done, e);
    for (uint32_t r = 0; rc == ERR_OK && r < s->n_drawn; r++) {
        s->drawn[r] = s->out[r];
        if (s->row[r].is_skipped)
            s->drawn[r].token = -1;
    }
    if (rc == ERR_OK && d->refusal)
        rc = err_set(e, ERR_UNSUPPORTED, "backend %s: %s", d->dev->name, d->refusal);
    return rc;
}

int device_run(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    int rc = device_start(d, body, arg, e);
    return rc == ERR_OK ? device_finish(d, e) : rc;
}
