/* Norms and matrix products, one row of weights at a time, threads split by rows. A dot product is
 * summed in float in sixteen lanes over 32 elements, and in double over those pieces. */
#include "kernels/ref/device.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, PIECE = 32 };

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    uint32_t i = 0;
    for (; i + PIECE <= n; i += PIECE) {
        float lane[LANES];
        for (int j = 0; j < LANES; j++)
            lane[j] = a[i + j] * b[i + j];
        for (int j = 0; j < LANES; j++)
            lane[j] += a[i + LANES + j] * b[i + LANES + j];
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int j = 0; j < width; j++)
                lane[j] += lane[j + width];
        sum += (double)lane[0];
    }
    for (; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static const void *row_at(const struct kern_matrix *w, uint32_t row, uint32_t *dtype)
{
    uint32_t p = 0;
    while (row >= w->part[p].rows)
        row -= w->part[p++].rows;
    *dtype = w->part[p].dtype;
    return (const char *)w->part[p].data + row * w->row_bytes[p];
}

static void expand_row(const struct kern_matrix *w, uint32_t row, float *dst)
{
    uint32_t dtype;
    const void *src = row_at(w, row, &dtype);
    dtype_to_f32(dtype, src, dst, w->cols);
}

void ref_norm_row(const float *x, const float *weight, float eps, uint32_t n, float *y)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    double scale = 1 / sqrt(squares / n + (double)eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * scale) * weight[i];
}

struct norm_job {
    const float *x;
    float *y;
    const struct kern_norm *norm;
    uint32_t n_tok, width;
};

static void norm_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct norm_job *j = arg;
    struct team_range r = team_share(j->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++)
        ref_norm_row(j->x + (size_t)t * j->width, j->norm->weight->data, j->norm->eps, j->width,
                     j->y + (size_t)t * j->width);
}

/* x itself without a norm, else the device's scratch. */
static const float *normed(struct kern_device *d, const float *x, uint32_t width, uint32_t n_tok,
                           const struct kern_norm *norm)
{
    if (!norm)
        return x;
    struct norm_job j = {x, d->normed, norm, n_tok, width};
    team_each(d->team, team_shares(d->team, n_tok), norm_part, &j);
    return d->normed;
}

struct product_job {
    struct kern_device *d;
    const float *x;
    const struct kern_matrix *w;
    float *y;
    uint32_t n_tok;
    bool add;
    enum kern_gate gate;
};

static void product_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct product_job *j = arg;
    struct team_range r = team_share(j->w->rows, share, n_shares);
    float *row = j->d->row_scratch[thread];
    for (uint32_t i = r.from; i < r.to; i++) {
        expand_row(j->w, i, row);
        for (uint32_t t = 0; t < j->n_tok; t++) {
            float *y = &j->y[(size_t)t * j->w->rows + i];
            float value = (float)dot(row, j->x + (size_t)t * j->w->cols, j->w->cols);
            *y = j->add ? *y + value : value;
        }
    }
}

void ref_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y)
{
    uint32_t n = d->step->n_tok;
    struct product_job j = {d, normed(d, x->data, x->width, n, norm), w, y->data, n, false, 0};
    team_each(d->team, team_shares(d->team, w->rows), product_part, &j);
}

void ref_product_row(struct kern_device *d, const float *x, const struct kern_matrix *w, float *y)
{
    struct product_job j = {d, x, w, y, 1, false, 0};
    team_each(d->team, team_shares(d->team, w->rows), product_part, &j);
}

void ref_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x)
{
    struct product_job j = {d, h->data, w, x->data, d->step->n_tok, true, 0};
    team_each(d->team, team_shares(d->team, w->rows), product_part, &j);
}

/* GELU's tanh form is x * sigmoid(2 z), since 1 + tanh(z) = 2 sigmoid(2 z). */
static double gated(enum kern_gate gate, double g)
{
    double twice_z = g;
    if (gate == KERN_GATE_GELU)
        twice_z = 2 * sqrt(2 / acos(-1)) * (g + 0.044715 * g * g * g);
    return g / (1 + exp(-twice_z));
}

static void gate_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct product_job *j = arg;
    uint32_t width = j->w->rows / 2;
    struct team_range r = team_share(width, share, n_shares);
    float *row = j->d->row_scratch[thread];
    for (uint32_t i = r.from; i < r.to; i++) {
        expand_row(j->w, i, row);
        for (uint32_t t = 0; t < j->n_tok; t++) {
            double g = dot(row, j->x + (size_t)t * j->w->cols, j->w->cols);
            j->y[(size_t)t * width + i] = (float)gated(j->gate, g);
        }
        expand_row(j->w, width + i, row);
        for (uint32_t t = 0; t < j->n_tok; t++)
            j->y[(size_t)t * width + i] *=
                (float)dot(row, j->x + (size_t)t * j->w->cols, j->w->cols);
    }
}

void ref_gate_row(struct kern_device *d, const float *x, const struct kern_matrix *w,
                  enum kern_gate g, float *h)
{
    struct product_job j = {d, x, w, h, 1, false, g};
    team_each(d->team, team_shares(d->team, w->rows / 2), gate_part, &j);
}

void ref_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h)
{
    uint32_t n = d->step->n_tok;
    struct product_job j = {d, normed(d, x->data, x->width, n, norm), w, h->data, n, false, g};
    team_each(d->team, team_shares(d->team, w->rows / 2), gate_part, &j);
}

void ref_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits)
{
    for (uint32_t i = 0; i < n_row; i++)
        memcpy(d->head_in + (size_t)i * x->width, x->data + (size_t)row[i] * x->width,
               x->width * sizeof(float));
    struct product_job j = {
        d, normed(d, d->head_in, x->width, n_row, norm), w, logits, n_row, false, 0};
    team_each(d->team, team_shares(d->team, w->rows), product_part, &j);
}

void ref_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x)
{
    for (uint32_t t = 0; t < d->step->n_tok; t++) {
        float *row = x->data + (size_t)t * x->width;
        expand_row(w, (uint32_t)d->step->token[t], row);
        for (uint32_t i = 0; i < x->width; i++)
            row[i] *= scale;
    }
}

void ref_add_norm(struct kern_device *d, const struct kern_buffer *y, const struct kern_norm *norm,
                  struct kern_buffer *x)
{
    const float *add = normed(d, y->data, y->width, d->step->n_tok, norm);
    for (size_t i = 0; i < (size_t)d->step->n_tok * x->width; i++)
        x->data[i] += add[i];
}
