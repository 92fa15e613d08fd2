/* During a replay the table of kernels is one that does nothing, so that no op has to ask. */
#include "kernels/cuda/device.h"

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

static const struct device_kernels SILENT_KERNELS = {
    no_product,  no_group, no_product, no_experts, no_route,  no_combine, no_add,   no_embed,
    no_add_norm, no_gate,  no_heads,   no_attend,  no_attend, no_draw,    no_peers,
};

static bool is_same(const struct graph_kind *a, const struct graph_kind *b)
{
    return a->n_tok == b->n_tok && a->table_stride == b->table_stride &&
           a->max_chunks == b->max_chunks;
}

/* The kept graph of this kind, else a place for it. */
static void find_place(struct device_graphs *g)
{
    for (g->at = 0; g->at < g->n; g->at++)
        if (is_same(&g->of[g->at].kind, &g->kind))
            return;
    if (g->n == MAX_GRAPHS) {
        g->at = g->next;
        g->next = (g->next + 1) % MAX_GRAPHS;
    }
}

void device_graph_begin(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    g->kind = (struct graph_kind){d->view.n_tok, d->view.table_stride, d->max_chunks};
    find_place(g);
    if (g->at < g->n && is_same(&g->of[g->at].kind, &g->kind)) {
        g->state = GRAPH_REPLAYING;
        g->kernels = d->kernels;
        d->kernels = &SILENT_KERNELS;
        return;
    }
    g->state = GRAPH_CAPTURING;
    d->dev->capture_begin(d->stream);
}

/* False: this stream cannot be captured, and nothing was computed. */
static bool keep(struct kern_device *d)
{
    struct device_graphs *g = &d->graphs;
    struct dev_graph *graph = d->dev->capture_end(d->stream);
    if (!graph)
        return false;
    if (g->at < g->n)
        d->dev->graph_close(g->of[g->at].graph);
    else
        g->n++;
    g->of[g->at].kind = g->kind;
    g->of[g->at].graph = graph;
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
        d->dev->graph_launch(g->of[g->at].graph, d->stream);
    return true;
}

void device_graphs_close(struct kern_device *d)
{
    for (uint32_t i = 0; i < d->graphs.n; i++)
        d->dev->graph_close(d->graphs.of[i].graph);
    d->graphs.n = d->graphs.next = 0;
}
