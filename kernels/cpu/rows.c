/* Rows of activations, one by one: what goes into the first layer, and a layer's output that is
 * normed before it is added. Tokens are shared out; a few are the leader's. */
#include "kernels/cpu/device.h"

struct embed_job {
    struct kern_device *d;
    const struct kern_matrix *w;
    float scale;
    struct kern_buffer *x;
};

static void embed_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct embed_job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++) {
        float *row = j->x->data + (size_t)t * j->x->width;
        cpu_unpack_row(&j->w->part[0], (uint32_t)j->d->step->token[t], row);
        for (uint32_t i = 0; i < j->x->width; i++)
            row[i] *= j->scale;
    }
}

/* A few rows cost less than waking the others. */
static void each_row(struct kern_device *d, team_fn fn, void *job)
{
    team_each(d->team, d->step->n_tok < 4 ? 1 : team_shares(d->team, d->step->n_tok), fn, job);
}

void cpu_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x)
{
    x->n_quant = 0;
    each_row(d, embed_part, &(struct embed_job){d, w, scale, x});
}

struct add_norm_job {
    struct kern_device *d;
    const struct kern_buffer *y;
    const struct kern_norm *norm;
    struct kern_buffer *x;
};

static void add_norm_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct add_norm_job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, share, n_shares);
    float *normed = j->d->scratch[thread].own.value; /* no product is under way */
    uint32_t width = j->x->width;
    for (uint32_t t = r.from; t < r.to; t++) {
        float *x = j->x->data + (size_t)t * width;
        j->d->isa->norm(j->y->data + (size_t)t * width, j->norm->weight->data, j->norm->eps, width,
                        normed);
        for (uint32_t i = 0; i < width; i++)
            x[i] += normed[i];
    }
}

void cpu_add_norm(struct kern_device *d, const struct kern_buffer *y, const struct kern_norm *norm,
                  struct kern_buffer *x)
{
    each_row(d, add_norm_part, &(struct add_norm_job){d, y, norm, x});
}
