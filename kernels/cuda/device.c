/* Opening a device, its memory, what is loaded to it and read from it. */
#include "kernels/cuda/device.h"

#include <stdlib.h>

int device_no_memory(const struct kern_device *d, const char *what, struct err *e)
{
    size_t free_bytes = 0, total = 0;
    d->dev->memory(&free_bytes, &total);
    return err_set(e, ERR_NOMEM,
                   "backend %s: no memory for %s: %zu of the device's %zu MiB are free; a model of "
                   "smaller weights, fewer kv_tokens or a smaller max_batch_tokens may fit",
                   d->dev->name, what, free_bytes >> 20, total >> 20);
}

static bool grow_list(struct kern_device *d)
{
    if (d->n_taken < d->max_taken)
        return true;
    size_t max = d->max_taken ? 2 * d->max_taken : 256;
    void **list = realloc(d->taken, max * sizeof *list);
    if (!list)
        return false;
    d->taken = list;
    d->max_taken = max;
    return true;
}

void *device_take(struct kern_device *d, size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || !grow_list(d))
        return NULL;
    void *p = d->dev->alloc(bytes ? bytes : 1);
    if (p)
        d->taken[d->n_taken++] = p;
    return p;
}

int device_upload(struct kern_device *d, void *dst, const void *src, size_t n, struct err *e)
{
    d->dev->copy(dst, src, n, DEV_TO_DEVICE, d->stream);
    return d->dev->sync(d->stream, e);
}

int device_open(struct kern_device **out, const struct kern_options *o, const struct dev_ops *dev,
                const struct device_kernels *kernels, struct err *e)
{
    int rc;
    *out = NULL;
    struct kern_device *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, ERR_NOMEM, "backend %s", dev->name);
    d->dev = dev;
    d->kernels = kernels;
    d->max_tok = o->max_tok;
    d->has_fp8_weights = o->has_fp8_weights;
    d->graphs.is_on = o->has_graphs;
    d->index = o->device;
    arena_init(&d->arena, SIZE_MAX / 2);
    rc = dev->open(o->device, e);
    if (rc == ERR_OK)
        d->capability = dev->capability();
    if (rc == ERR_OK)
        rc = team_open(&d->team, o->n_threads, e);
    if (rc == ERR_OK && !(d->stream = dev->stream_open()))
        rc = device_no_memory(d, "a stream", e);
    if (rc == ERR_OK)
        rc = device_steps_open(d, e);
    if (rc == ERR_OK && o->has_library_gemm)
        rc = library_open(d, e);
    if (rc != ERR_OK) {
        device_close(d);
        return rc;
    }
    *out = d;
    return ERR_OK;
}

void device_close(struct kern_device *d)
{
    if (!d)
        return;
    if (d->stream)
        d->dev->enter(d->index);
    device_leave(d);
    device_graphs_close(d);
    if (d->stream)
        d->dev->stream_close(d->stream);
    for (size_t i = 0; i < d->n_taken; i++)
        d->dev->release(d->taken[i]);
    device_steps_close(d);
    team_close(d->team);
    arena_free(&d->arena);
    free(d->taken);
    free(d);
}

uint32_t device_n_threads(const struct kern_device *d)
{
    return team_size(d->team);
}

size_t device_weight_bytes(const struct kern_device *d)
{
    return d->weight_bytes;
}

int device_vector(struct kern_device *d, const float *data, uint32_t n,
                  const struct kern_vector **out, struct err *e)
{
    struct kern_vector *v = arena_alloc(&d->arena, sizeof *v);
    float *copy = device_take(d, n, sizeof *copy);
    if (!v || !copy)
        return device_no_memory(d, "a vector", e);
    *v = (struct kern_vector){n, copy};
    d->weight_bytes += n * sizeof *copy;
    *out = v;
    return device_upload(d, copy, data, n * sizeof *copy, e);
}

int device_buffer(struct kern_device *d, uint32_t width, struct kern_buffer **out, struct err *e)
{
    struct kern_buffer *b = arena_alloc(&d->arena, sizeof *b);
    float *data = device_take(d, (size_t)d->max_tok * width, sizeof *data);
    if (!b || !data)
        return device_no_memory(d, "activations", e);
    *b = (struct kern_buffer){width, data};
    *out = b;
    return ERR_OK;
}

void device_each(struct kern_device *d, uint32_t n,
                 void (*fn)(void *arg, uint32_t i, uint32_t thread), void *arg)
{
    team_each_item(d->team, n, fn, arg);
}

/* Both wait, so that the caller's memory is free or filled at once; an error shows in run. */
void device_write(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n)
{
    d->dev->copy(b->data, src, (size_t)n * b->width * sizeof *src, DEV_TO_DEVICE, d->stream);
    (void)!d->dev->sync(d->stream, NULL);
}

void device_read(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n)
{
    d->dev->copy(dst, b->data, (size_t)n * b->width * sizeof *dst, DEV_TO_HOST, d->stream);
    (void)!d->dev->sync(d->stream, NULL);
}
