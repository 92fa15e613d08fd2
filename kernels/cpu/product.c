/* Norms, quantisation and matrix products on the team. A step of one token quantises it on every
 * thread (cheaper than a join); larger steps split the tokens first, then the groups of rows. */
#include "kernels/cpu/device.h"

#include <string.h>

struct job {
    struct kern_device *d;
    const float *x;      /* input rows */
    const uint32_t *row; /* NULL, or which rows */
    uint32_t n_tok, n_groups;
    const struct kern_norm *norm;
    const struct kern_matrix *w;
    float *y;
    void (*group)(const struct job *j, const struct cpu_acts *a, uint32_t group);
};

static void quantize_token(const struct job *j, struct cpu_acts *a, uint32_t token, uint32_t at)
{
    const float *x = j->x + (size_t)(j->row ? j->row[token] : token) * j->w->cols;
    const float *gain = j->norm ? j->norm->weight->data : NULL;
    j->d->isa->quantize(x, gain, j->norm ? j->norm->eps : 0, a, at);
}

static void quantize_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = arg;
    struct team_range r = team_share(j->n_tok, thread, n_threads);
    for (uint32_t t = r.from; t < r.to; t++)
        quantize_token(j, &j->d->acts, t, t);
}

static void groups_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = arg;
    struct cpu_acts *a = &j->d->acts;
    if (j->n_tok == 1) {
        a = &j->d->alone[thread];
        a->cols = j->w->cols;
        quantize_token(j, a, 0, 0);
    }
    struct team_range r = team_share(j->n_groups, thread, n_threads);
    for (uint32_t g = r.from; g < r.to; g++)
        j->group(j, a, g);
}

static void run_job(struct job *j)
{
    j->d->acts.cols = j->w->cols;
    if (j->n_tok > 1)
        team_each(j->d->team, quantize_part, j);
    if (j->n_tok > 0)
        team_each(j->d->team, groups_part, j);
}

static void tile(const struct job *j, uint32_t group, const struct cpu_acts *a, uint32_t first,
                 uint32_t n, float out[TILE_TOKENS][LANES])
{
    const uint8_t *packed = j->w->packed + (size_t)group * j->w->group_bytes;
    if (j->w->unit_bytes == UNIT4_BYTES)
        j->d->isa->tile4(packed, a, first, n, out);
    else
        j->d->isa->tile8(packed, a, first, n, out);
}

/* The rows of y that a group gives: first and number. */
static uint32_t group_rows(const struct kern_matrix *w, uint32_t group, uint32_t *first)
{
    uint32_t p = w->n_parts - 1;
    while (group < w->part[p].first_group)
        p--;
    uint32_t row = (group - w->part[p].first_group) * LANES;
    *first = w->part[p].first_row + row;
    return w->part[p].rows - row < LANES ? w->part[p].rows - row : LANES;
}

static uint32_t tile_width(const struct job *j, uint32_t t)
{
    return j->n_tok - t < TILE_TOKENS ? j->n_tok - t : TILE_TOKENS;
}

static void store_group(const struct job *j, const struct cpu_acts *a, uint32_t group)
{
    uint32_t first, n_rows = group_rows(j->w, group, &first);
    for (uint32_t t = 0; t < j->n_tok; t += TILE_TOKENS) {
        float out[TILE_TOKENS][LANES];
        uint32_t n = tile_width(j, t);
        tile(j, group, a, t, n, out);
        for (uint32_t i = 0; i < n; i++)
            memcpy(j->y + (size_t)(t + i) * j->w->rows + first, out[i], n_rows * sizeof(float));
    }
}

static void add_group(const struct job *j, const struct cpu_acts *a, uint32_t group)
{
    uint32_t first, n_rows = group_rows(j->w, group, &first);
    for (uint32_t t = 0; t < j->n_tok; t += TILE_TOKENS) {
        float out[TILE_TOKENS][LANES];
        uint32_t n = tile_width(j, t);
        tile(j, group, a, t, n, out);
        for (uint32_t i = 0; i < n; i++) {
            float *y = j->y + (size_t)(t + i) * j->w->rows + first;
            for (uint32_t r = 0; r < n_rows; r++)
                y[r] += out[i][r];
        }
    }
}

/* `group` of the first part is gate, its twin in the second part is up. */
static void gate_group(const struct job *j, const struct cpu_acts *a, uint32_t group)
{
    uint32_t first, n_rows = group_rows(j->w, group, &first), width = j->w->part[0].rows;
    for (uint32_t t = 0; t < j->n_tok; t += TILE_TOKENS) {
        float gate[TILE_TOKENS][LANES], up[TILE_TOKENS][LANES], out[LANES];
        uint32_t n = tile_width(j, t);
        tile(j, group, a, t, n, gate);
        tile(j, j->w->part[1].first_group + group, a, t, n, up);
        for (uint32_t i = 0; i < n; i++) {
            j->d->isa->swiglu(gate[i], up[i], out);
            memcpy(j->y + (size_t)(t + i) * width + first, out, n_rows * sizeof *out);
        }
    }
}

void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y)
{
    struct job j = {.d = d,
                    .x = x->data,
                    .n_tok = d->step->n_tok,
                    .n_groups = w->n_groups,
                    .norm = norm,
                    .w = w,
                    .y = y->data,
                    .group = store_group};
    run_job(&j);
}

void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x)
{
    struct job j = {.d = d,
                    .x = h->data,
                    .n_tok = d->step->n_tok,
                    .n_groups = w->n_groups,
                    .w = w,
                    .y = x->data,
                    .group = add_group};
    run_job(&j);
}

void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *h)
{
    struct job j = {.d = d,
                    .x = x->data,
                    .n_tok = d->step->n_tok,
                    .n_groups = w->part[1].first_group,
                    .norm = norm,
                    .w = w,
                    .y = h->data,
                    .group = gate_group};
    run_job(&j);
}

void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits)
{
    struct job j = {.d = d,
                    .x = x->data,
                    .row = row,
                    .n_tok = n_row,
                    .n_groups = w->n_groups,
                    .norm = norm,
                    .w = w,
                    .y = logits,
                    .group = store_group};
    run_job(&j);
}

struct embed_job {
    struct kern_device *d;
    const struct kern_matrix *w;
    struct kern_buffer *x;
};

static void embed_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct embed_job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, thread, n_threads);
    for (uint32_t t = r.from; t < r.to; t++)
        cpu_unpack_row(j->w, (uint32_t)j->d->step->token[t], j->x->data + (size_t)t * j->x->width);
}

void cpu_embed(struct kern_device *d, const struct kern_matrix *w, struct kern_buffer *x)
{
    struct embed_job j = {d, w, x};
    team_each(d->team, embed_part, &j);
}
