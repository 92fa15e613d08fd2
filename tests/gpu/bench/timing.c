/* The one way in which ops are timed. */
#include "kernels/cuda/device.h"
#include "tests/gpu/bench/bench.h"

enum { ROUNDS = 9 };

int bench_time(const struct bench_options *o, struct kern_device *device,
               void (*call)(void *arg, uint32_t i), void *arg, uint32_t n, double *us,
               struct err *e)
{
    const struct dev_ops *dev = o->dev;
    struct dev_stream *s = device->stream;
    struct dev_event *from = dev->event_open(), *to = dev->event_open();
    double took[ROUNDS] = {0};
    int rc = ERR_OK;
    dev->capture_begin(s);
    for (uint32_t i = 0; i < n; i++)
        call(arg, i);
    struct dev_graph *graph = dev->capture_end(s);
    for (uint32_t r = 0; r < ROUNDS && rc == ERR_OK; r++) {
        dev->record(from, s);
        if (graph)
            dev->graph_launch(graph, s);
        for (uint32_t i = 0; i < n && !graph; i++)
            call(arg, i);
        dev->record(to, s);
        rc = dev->sync(s, e);
        took[r] = rc == ERR_OK ? 1e3 * (double)dev->elapsed_ms(from, to) / n : 0;
    }
    *us = rows_median(took + 1, ROUNDS - 1); /* the first warms up */
    dev->graph_close(graph);
    dev->event_close(from);
    dev->event_close(to);
    return rc;
}
