/* Products: activations are made ready (norm, integers) once, then threads take contiguous ranges
 * of rows, so that each reads the weights in long runs. For a single token every thread makes
 * the activations itself: cheaper than waiting for one another. */
#include "kernels/cpu/device.h"

#include <string.h>

enum { SHARE_COLUMNS = 8192 }; /* of activations against a unit: a microsecond or two */

struct job {
    struct kern_device *d;
    const struct kern_matrix *w;
    const struct kern_norm *norm;
    const float *x; /* [., width] */
    uint32_t width, n_tok;
    const uint32_t *row; /* NULL: row t of x is token t */
    enum product_mode mode;
    float *out;
    uint32_t out_width;
    uint64_t serial; /* number of this job, so that a thread prepares a token once */
};

/* Token t of the job, by every thread for itself or for all. */
static void prepare(const struct job *j, uint32_t t, const struct activations *a)
{
    const struct cpu_isa *isa = j->d->isa;
    uint32_t cols = j->width, tile = tile_of(j->n_tok, t);
    const float *x = j->x + (size_t)(j->row ? j->row[t] : t) * cols;
    float *value = a->value + (size_t)t * cols;
    if (j->norm)
        isa->norm(x, j->norm->weight->data, j->norm->eps, cols, value);
    else if (j->w->has_float)
        memcpy(value, x, cols * sizeof *value);
    if (j->w->has_quant)
        isa->quantise(j->norm ? value : x, cols,
                      a->quant + (size_t)tile * TILE_TOKENS * (cols / QUANT) + t -
                          tile_start(j->n_tok, tile));
}

static void prepare_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct job *j = arg;
    struct team_range r = team_share(j->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++)
        prepare(j, t, &j->d->shared);
}

static uint32_t rows_of(const struct panel *p, uint32_t group)
{
    uint32_t rest = p->rows - group * LANES;
    return rest < LANES ? rest : LANES;
}

static bool is_gate(enum product_mode mode)
{
    return mode == PRODUCT_GATE_SILU || mode == PRODUCT_GATE_GELU;
}

static uint32_t n_units(const struct kern_matrix *w, bool is_gate)
{
    return is_gate ? w->part[0].n_groups : w->n_units;
}

/* Two neighbouring groups of one part. */
static void find_pair(const struct kern_matrix *w, uint32_t unit, struct product *p)
{
    uint32_t i = w->n_parts - 1;
    while (unit < w->first_unit[i])
        i--;
    uint32_t group = (unit - w->first_unit[i]) * 2;
    p->n_groups = w->part[i].n_groups - group >= 2 ? 2 : 1;
    for (uint32_t k = 0; k < p->n_groups; k++) {
        p->panel[k] = &w->part[i];
        p->group[k] = group + k;
    }
}

/* The same group of gate and up. */
static void find_gate(const struct kern_matrix *w, uint32_t group, struct product *p)
{
    p->n_groups = 2;
    for (uint32_t k = 0; k < 2; k++) {
        p->panel[k] = &w->part[k];
        p->group[k] = group;
    }
}

static void find_unit(const struct kern_matrix *w, bool is_gate, uint32_t unit, struct product *p)
{
    if (is_gate)
        find_gate(w, unit, p);
    else
        find_pair(w, unit, p);
}

/* Where the rows of the groups go. */
static void place_rows(const struct job *j, struct product *p)
{
    for (uint32_t k = 0; k < p->n_groups; k++) {
        uint32_t part = (uint32_t)(p->panel[k] - j->w->part);
        uint32_t first = is_gate(j->mode) ? 0 : j->w->first_row[part];
        p->n_rows[k] = rows_of(p->panel[k], p->group[k]);
        p->out[k] = j->out + first + (size_t)p->group[k] * LANES;
    }
}

/* With many tokens a unit is work enough for a share: the last one is short and nobody waits long
 * for it. With few, shares are runs of units, read in long sequences. */
static uint32_t n_shares(const struct team *team, uint32_t units, uint32_t n_tok, uint32_t cols)
{
    uint32_t few = team_shares(team, units);
    uint64_t fine = (uint64_t)units * n_tok * cols / SHARE_COLUMNS;
    uint32_t most = units < TEAM_MAX_SHARES ? units : TEAM_MAX_SHARES;
    return fine <= few ? few : fine < most ? (uint32_t)fine : most;
}

/* Units of the shares that are a thread's own. */
static struct team_range own_units(const struct job *j, const struct kern_matrix *w, bool is_gate,
                                   uint32_t thread)
{
    const struct team *team = j->d->team;
    uint32_t units = n_units(w, is_gate), n = n_shares(team, units, j->n_tok, w->cols);
    struct team_range own = team_share(n, thread, team_size(team));
    return (struct team_range){team_share(units, own.from, n).from,
                               team_share(units, own.to, n).from};
}

/* What a thread reads first in the matrix that was loaded after this one and so, most often, is
 * used after it; one of two parts is gate and up. */
static bool find_next(const struct job *j, uint32_t thread, struct product *p)
{
    const struct kern_matrix *w = j->w->next;
    if (!w)
        return false;
    bool is_gate = w->n_parts == 2;
    struct team_range own = own_units(j, w, is_gate, thread);
    if (own.from < own.to)
        find_unit(w, is_gate, own.from, p);
    return own.from < own.to;
}

static const uint8_t *group_data(const struct product *p, uint32_t k)
{
    return p->panel[k]->data + p->group[k] * p->panel[k]->group_bytes;
}

/* next: what the thread reads after p. */
static void look_ahead(const struct product *next, struct product *p)
{
    for (uint32_t k = 0; k < p->n_groups; k++)
        p->ahead[k] = group_data(next, k < next->n_groups ? k : 0);
}

/* Of one token every thread makes the activations itself: cheaper than waiting for one another. */
static bool is_prepared_alone(const struct job *j)
{
    return j->n_tok == 1;
}

static void product_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct job *j = arg;
    struct thread_scratch *own = &j->d->scratch[thread];
    if (is_prepared_alone(j) && own->job != j->serial) {
        for (uint32_t t = 0; t < j->n_tok; t++)
            prepare(j, t, &own->own);
        own->job = j->serial;
    }
    struct product p = {.mode = j->mode,
                        .out_stride = j->out_width,
                        .x = is_prepared_alone(j) ? &own->own : &j->d->shared,
                        .n_tok = j->n_tok,
                        .is_far = j->d->weight_bytes > j->d->cache_bytes};
    bool gate = is_gate(j->mode);
    struct team_range r = team_share(n_units(j->w, gate), share, n_shares);
    struct team_range own_run = own_units(j, j->w, gate, thread);
    uint32_t end = r.from >= own_run.from && r.from < own_run.to ? own_run.to : r.to;
    for (uint32_t unit = r.from; unit < r.to; unit++) {
        find_unit(j->w, gate, unit, &p);
        place_rows(j, &p);
        struct product next = p;
        if (unit + 1 < end)
            find_unit(j->w, gate, unit + 1, &next);
        else
            (void)find_next(j, thread, &next);
        look_ahead(&next, &p);
        j->d->isa->product(&p);
    }
}

static void run_job(struct job *j)
{
    struct team *team = j->d->team;
    if (j->n_tok == 0)
        return;
    j->serial = ++j->d->serial;
    if (!is_prepared_alone(j))
        team_each(team, team_shares(team, j->n_tok), prepare_part, j);
    team_each(team, n_shares(team, n_units(j->w, is_gate(j->mode)), j->n_tok, j->width),
              product_part, j);
}

static struct job job_on(struct kern_device *d, const struct kern_buffer *in,
                         const struct kern_norm *norm, const struct kern_matrix *w)
{
    return (struct job){
        .d = d, .w = w, .norm = norm, .x = in->data, .width = in->width, .n_tok = d->step->n_tok};
}

static void run_into(struct job *j, enum product_mode mode, struct kern_buffer *out)
{
    j->mode = mode;
    j->out = out->data;
    j->out_width = out->width;
    run_job(j);
}

void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y)
{
    struct job j = job_on(d, x, norm, w);
    run_into(&j, PRODUCT_STORE, y);
}

void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x)
{
    struct job j = job_on(d, h, NULL, w);
    run_into(&j, PRODUCT_ADD, x);
}

void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h)
{
    struct job j = job_on(d, x, norm, w);
    run_into(&j, g == KERN_GATE_GELU ? PRODUCT_GATE_GELU : PRODUCT_GATE_SILU, h);
}

void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits)
{
    struct job j = job_on(d, x, norm, w);
    j.n_tok = n_row;
    j.row = row;
    j.mode = PRODUCT_STORE;
    j.out = logits;
    j.out_width = w->rows;
    run_job(&j);
}

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
    if (d->step->n_tok < 4)
        fn(job, 0, 1, 0);
    else
        team_each(d->team, team_shares(d->team, d->step->n_tok), fn, job);
}

void cpu_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x)
{
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
