/* kernels/cuda/graphs.h - the layers of a decoding step as one launch.
 *
 * A step whose tokens are all of different sequences is captured the first time its kind is seen,
 * from begin to the head, and launched as one graph from then on; ops of a replayed step launch
 * nothing. What differs from step to step (tokens, positions, tables of blocks) stands in device
 * memory and is copied before. A kind is what launches depend on beside that; a graph belongs to
 * its device, and so to one model and one KV cache. With other ranks a step is cut at each
 * collective, which is called between two graphs. */
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
    bool is_cut;     /* for a collective; another piece follows */
    enum graph_state state;
    struct graph_kind kind; /* of the step */
    struct kept_step {
        struct graph_kind kind;
        struct dev_graph **piece; /* [n_pieces] */
        uint32_t n_pieces, max_pieces;
    } of[MAX_GRAPHS];
    uint32_t n, next, at;                 /* kept; which goes next; the step's */
    uint32_t piece;                       /* that comes next in it */
    const struct device_kernels *kernels; /* the real ones while state is REPLAYING */
    uint64_t n_captured, n_replayed;
};

/* After the step's copies, d->view and d->max_chunks are set: begins what head ends. */
void device_graph_begin(struct kern_device *d);
/* Before the head: the layers are under way. False: they are not, for want of a capture; `run` does
 * the step again without. */
bool device_graph_end(struct kern_device *d);
/* Around a collective; false: what is before it was not computed. */
bool device_graph_cut(struct kern_device *d);
void device_graph_resume(struct kern_device *d);
/* Leaves graphs alone where streams cannot be captured: with ranks no step can be run again. */
void device_graphs_try(struct kern_device *d);
/* Forgets all; nothing is under way. */
void device_graphs_close(struct kern_device *d);

#endif
