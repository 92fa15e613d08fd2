/* During a replay the table of kernels is one that does nothing, so that no op has to ask. */
#include "kernels/cuda/device.h"

#include <stdlib.h>

#define SILENT(name, args)                                                                         \
    static void no_##name(const struct args *a, struct dev_stream *s)                              \
    {                                                                                              \
        (void)a, (void)s;                                                                          \
    }
SILENT(product, product_args)
SILENT(group, group_args)
SILENT(experts, experts_args)
SILENT(route, route_args)
SILENT(combine, combine_args)
SILENT(add, add_args)
SILENT(embed, embed_args)
SILENT(add_norm, add_norm_args)
SILENT(gate, gate_args)
SILENT(heads, heads_args)
SILENT(attend, attend_args)
SILENT(draw, draw_args)
SILENT(peers, peers_ranks)
SILENT(unpack, unpack_args)

static bool no_wgmma(const struct attend_args *a, struct dev_stream *s)
{
    (void)a, (void)s;
    return true;
}

static const struct device_kernels SILENT_KERNELS = {
    no_product, no_group, no_product,  no_experts, no_route,   no_combine,
    no_add,     no_embed, no_add_norm, no_gate,    no_heads,   no_attend,
    no_attend,  no_wgmma, no_draw,     no_peers,   no_product, no_unpack,
};

static bool is_same(const struct graph_kind *a, const struct graph_kind *b)
{
    return a->n_tok == b->n_tok && a->table_stride == b->table_stride &&
           a->max_chunks == b->max_chunks;
}

static void drop(struct kern_device *d, struct kept_step *k)
{
    for (uint32_t i = 0; i < k->n_pieces; i++)
        d->dev->graph_close(k->piece[i]);
    k->n_pieces = 0;
}

/* The kept step of this kind, else a place for it. */
static void find_place(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    for (g->at = 0; g->at < g->n; g->at++)
        if (is_same(&g->of[g->at].kind, &g->kind))
            return;
    if (g->n < MAX_GRAPHS) {
        g->n++;
    } else {
        g->at = g->next;
        g->next = (g->next + 1) % MAX_GRAPHS;
    }
    drop(d, &g->of[g->at]);
    g->of[g->at].kind = g->kind;
}

static void begin_piece(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    if (g->piece < g->of[g->at].n_pieces) {
        g->state = GRAPH_REPLAYING;
        g->kernels = d->kernels;
        d->kernels = &SILENT_KERNELS;
        return;
    }
    g->state = GRAPH_CAPTURING;
    d->dev->capture_begin(d->stream);
}

void device_graph_begin(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    g->kind = (struct graph_kind){d->view.n_tok, d->view.table_stride, d->max_chunks};
    g->piece = 0;
    find_place(d);
    begin_piece(d);
}

static bool has_room(struct kept_step *k)
{
    if (k->n_pieces < k->max_pieces)
        return true;
    uint32_t max = k->max_pieces ? 2 * k->max_pieces : 1;
    struct dev_graph **piece = realloc(k->piece, max * sizeof *piece);
    if (!piece)
        return false;
    k->piece = piece;
    k->max_pieces = max;
    return true;
}

/* False: this stream cannot be captured, and nothing was computed. */
static bool keep(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    struct kept_step *k = &g->of[g->at];
    struct dev_graph *graph = d->dev->capture_end(d->stream);
    if (!graph || !has_room(k)) {
        d->dev->graph_close(graph);
        return false;
    }
    k->piece[k->n_pieces++] = graph;
    g->n_captured++;
    return true;
}

bool device_graph_end(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    enum graph_state state = g->state;
    g->state = GRAPH_IDLE;
    if (state == GRAPH_REPLAYING) {
        d->kernels = g->kernels;
        g->n_replayed++;
    } else if (state == GRAPH_CAPTURING && !keep(d)) {
        g->is_on = false;
        g->has_failed = true;
        return false;
    }
    if (state != GRAPH_IDLE)
        d->dev->graph_launch(g->of[g->at].piece[g->piece++], d->stream);
    return true;
}

bool device_graph_cut(struct kern_device *d)
{
    d->graphs.is_cut = d->graphs.state != GRAPH_IDLE;
    return device_graph_end(d);
}

void device_graph_resume(struct kern_device *d)
{
    if (d->graphs.is_cut)
        begin_piece(d);
    d->graphs.is_cut = false;
}

void device_graphs_try(struct kern_device *d)
{
    if (!d->graphs.is_on)
        return;
    d->dev->capture_begin(d->stream);
    struct dev_graph *graph = d->dev->capture_end(d->stream);
    d->graphs.is_on = graph != NULL;
    d->dev->graph_close(graph);
}

void device_graphs_close(struct kern_device *d)
{
    for (uint32_t i = 0; i < MAX_GRAPHS; i++) {
        drop(d, &d->graphs.of[i]);
        free(d->graphs.of[i].piece);
        d->graphs.of[i] = (struct kept_step){0};
    }
    d->graphs.n = d->graphs.next = 0;
}
