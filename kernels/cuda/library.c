/* A product of the library is three steps on the stream: the rows of activations normed and
 * rounded, a slice of weights unpacked, and the call; gates wait in scratch for their ups. Slices
 * are small enough for the second cache, so that the library does not read them from memory. */
#include "kernels/cuda/library.h"

#include "kernels/cuda/device.h"

enum { SLICE_BYTES = 32 << 20, COLUMNS = 32 };

int library_open(struct kern_device *d, struct err *e)
{
    struct device_library *l = &d->library;
    int rc = d->dev->gemm_ready(e);
    if (rc != ERR_OK)
        return rc;
    l->slice_bytes = SLICE_BYTES;
    l->weights = device_take(d, SLICE_BYTES, 1);
    l->both = device_take(d, SLICE_BYTES, 1);
    l->workspace = device_take(d, DEV_GEMM_WORKSPACE, 1);
    if (!l->weights || !l->both || !l->workspace)
        return device_no_memory(d, "products by the library (engine.gemm)", e);
    l->is_on = true;
    return ERR_OK;
}

void library_begin(struct kern_device *d)
{
    struct device_library *l = &d->library;
    l->is_of_step = l->is_on && d->view.n_tok >= LIBRARY_TOKENS && d->n_tiles > 0;
}

bool library_takes(const struct kern_device *d, const struct product_args *a)
{
    return d->library.is_of_step && !a->pick;
}

static uint32_t padded_cols(const struct panel *w)
{
    return w->format == PANEL_F32 ? w->units * 4 : (w->cols + COLUMNS - 1) / COLUMNS * COLUMNS;
}

/* Rows of a slice: what fits unpacked and, of gates, beside their ups for all tokens. */
static uint32_t slice_rows(const struct kern_device *d, const struct product_args *a)
{
    size_t row = (size_t)padded_cols(&a->w) * sizeof(uint16_t);
    size_t column = 2 * (size_t)a->n_tok * sizeof(float);
    size_t n = d->library.slice_bytes / row;
    if (a->mode == PRODUCT_GATE && d->library.slice_bytes / column < n)
        n = d->library.slice_bytes / column;
    return n > TILE_EIGHT ? (uint32_t)n & ~(TILE_EIGHT - 1u) : 1;
}

/* c (rows ldc apart) = or += rows of activations times n weight rows from `first` on. */
static void multiply(struct kern_device *d, const struct product_args *a, uint32_t first,
                     uint32_t n, float *c, uint32_t ldc)
{
    struct dev_gemm g = {.c = c,
                         .a = a->split,
                         .b = d->library.weights,
                         .m = (int)a->n_tok,
                         .n = (int)n,
                         .k = (int)padded_cols(&a->w),
                         .ldc = (int)ldc,
                         .type = DEV_BF16,
                         .scale = 1,
                         .is_added = a->mode == PRODUCT_ADD,
                         .workspace = d->library.workspace};
    if (a->w.format == PANEL_F32) {
        g.type = DEV_F32;
        g.b = (const float *)a->w.low + (size_t)first * padded_cols(&a->w);
    } else {
        const struct unpack_args u = {a->w, first, n, d->library.weights};
        d->kernels->unpack(&u, d->stream);
    }
    d->dev->gemm(&g, d->stream);
    d->library.n_products++;
}

static void gate_slices(struct kern_device *d, const struct product_args *a)
{
    uint32_t half = a->w.rows / 2, step = slice_rows(d, a);
    float *both = d->library.both;
    for (uint32_t first = 0; first < half; first += step) {
        uint32_t n = half - first < step ? half - first : step;
        const struct gate_args gate = {both, a->y + first, n, a->y_stride, a->n_tok, a->gate};
        multiply(d, a, first, n, both, 2 * n);
        multiply(d, a, half + first, n, both + n, 2 * n);
        d->kernels->gate(&gate, d->stream);
    }
}

static void slices(struct kern_device *d, const struct product_args *a)
{
    uint32_t step = slice_rows(d, a);
    for (uint32_t first = 0; first < a->w.rows; first += step) {
        uint32_t n = a->w.rows - first < step ? a->w.rows - first : step;
        multiply(d, a, first, n, a->y + a->first_row + first, a->y_stride);
    }
}

void library_products(struct kern_device *d, struct product_args a, const struct kern_matrix *w)
{
    a.split = d->split; /* has four bytes a column, as rows of float32 */
    for (uint32_t i = 0; i < w->n_panels; i++) {
        a.w = w->panel[i];
        a.first_row = w->first_row[i];
        d->kernels->plain(&a, d->stream);
        (a.mode == PRODUCT_GATE ? gate_slices : slices)(d, &a);
    }
}
