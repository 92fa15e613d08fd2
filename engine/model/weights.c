/* Looks a tensor up, checks its shape, uploads it. */
#include "engine/model/weights.h"

enum { MAX_PARTS = 4 };

static int find_shaped(const struct gguf *file, const struct weight_want *want,
                       const struct gguf_tensor **out, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(file, want->name);
    if (!t)
        return err_set(e, ERR_INVALID, "weights: tensor %s is missing: is the file complete?",
                       want->name);
    if (t->dim[0] != want->n_cols || t->dim[1] != want->n_rows || t->dim[2] * t->dim[3] != 1)
        return err_set(e, ERR_INVALID,
                       "weights: %s: want [%llu,%llu] got [%llu,%llu]: do the file's sizes belong "
                       "to another model, or was it converted transposed?",
                       want->name, (unsigned long long)want->n_rows,
                       (unsigned long long)want->n_cols, (unsigned long long)t->dim[1],
                       (unsigned long long)t->dim[0]);
    *out = t;
    return ERR_OK;
}

int weights_load(struct model *m, const struct gguf *file, const struct weight_want *want,
                 uint32_t n, enum kern_layout layout, struct kern_weight **out, struct err *e)
{
    struct kern_matrix part[MAX_PARTS];
    int rc;
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct gguf_tensor *t;
        TRY(find_shaped(file, &want[i], &t, e));
        part[i] = (struct kern_matrix){t->data, t->type, t->dim[1], t->dim[0]};
    }
    rc = m->ops->weight_load(m->kern, part, n, layout, out, e);
    if (rc != ERR_OK && e)
        err_wrap(e, "weights: %s", want[0].name);
    if (rc == ERR_OK)
        m->info.weight_bytes += m->ops->weight_bytes(*out);
out:
    return rc;
}

int weights_load_vector(struct model *m, const struct gguf *file, const char *name, uint64_t n,
                        float **out, struct err *e)
{
    const struct gguf_tensor *t;
    struct weight_want want = {name, 1, n};
    int rc;
    *out = NULL;
    TRY(find_shaped(file, &want, &t, e));
    if (t->type != DTYPE_F32 && t->type != DTYPE_F16 && t->type != DTYPE_BF16)
        return err_set(e, ERR_UNSUPPORTED, "weights: %s has type %s: F32, F16 or BF16 is expected",
                       name, dtype_name(t->type));
    TRY(m->ops->buffer_alloc(m->kern, n, out, e));
    dtype_to_f32(t->type, t->data, *out, n);
    m->info.weight_bytes += n * sizeof(float);
out:
    return rc;
}
