/* kernels/cuda/graphs.h - the layers of a decoding step as one launch.
 *
 * A step whose tokens are all of different sequences is captured the first time its kind is seen,
 * from begin to the head, and launched as one graph from then on; ops of a replayed step launch
 * nothing. What differs from step to step (tokens, positions, tables of blocks) stands in device
 * memory and is copied before. A kind is what launches depend on beside that; a graph belongs to
 * its device, and so to one model and one KV cache. */
#ifndef KERNELS_CUDA_GRAPHS_H
#define KERNELS_CUDA_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

enum { GRAPH_TOKENS = 256 }; /* larger steps take long enough to launch */
enum { MAX_GRAPHS = 64 };    /* past that, kinds replace each other in turn */

struct dev_graph;
struct device_kernels;
struct kern_device;

struct graph_kind {
    uint32_t n_tok, table_stride, max_chunks;
};

enum graph_state { GRAPH_IDLE, GRAPH_CAPTURING, GRAPH_REPLAYING };

struct device_graphs {
    bool is_on;      /* as asked for at open; off after a capture that failed */
    bool has_failed; /* in this step: nothing of it was computed */
    bool is_again;   /* the step runs once more after that */
    enum graph_state state;
    struct graph_kind kind; /* of the step */
    struct {
        struct graph_kind kind;
        struct dev_graph *graph;
    } of[MAX_GRAPHS];
    uint32_t n, next, at;                 /* kept; which goes next; the step's */
    const struct device_kernels *kernels; /* the real ones while state is REPLAYING */
    uint64_t n_captured, n_replayed;
};

/* After the step's copies, d->view and d->max_chunks are set: begins what head ends. */
void device_graph_begin(struct kern_device *d);
/* Before the head: the layers are under way. False: they are not, for want of a capture; `run` does
 * the step again without. */
bool device_graph_end(struct kern_device *d);
/* Forgets all; nothing is under way. */
void device_graphs_close(struct kern_device *d);

#endif
