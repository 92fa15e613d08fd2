/* Every tensor is checked against the shape the metadata promises before the device sees it; pages
 * of the mapping are given back once copied, so that no second copy stays resident. */
#include "engine/model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128 };

static const char *tensor_name(char out[NAME_BYTES], const char *pattern, uint32_t layer)
{
    const char *mark = strstr(pattern, "%u");
    if (mark)
        snprintf(out, NAME_BYTES, "%.*s%u%s", (int)(mark - pattern), pattern, layer, mark + 2);
    else
        snprintf(out, NAME_BYTES, "%s", pattern);
    return out;
}

static int find_tensor(const struct gguf *g, const char *name, uint64_t d0, uint64_t d1,
                       const struct gguf_tensor **out, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    if (!t)
        return err_set(e, ERR_INVALID,
                       "weights: tensor %s is missing (want [%llu, %llu]): is the "
                       "file a whole model of this architecture?",
                       name, (unsigned long long)d0, (unsigned long long)d1);
    if (t->dim[0] != d0 || t->dim[1] != d1 || t->dim[2] != 1 || t->dim[3] != 1)
        return err_set(e, ERR_INVALID,
                       "weights: tensor %s: want [%llu, %llu], got "
                       "[%llu, %llu, %llu, %llu]: does it belong to this model?",
                       name, (unsigned long long)d0, (unsigned long long)d1,
                       (unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
                       (unsigned long long)t->dim[2], (unsigned long long)t->dim[3]);
    *out = t;
    return ERR_OK;
}

/* Rows of src to dst; pairs that stand half of n_rot apart become neighbours. */
static void copy_rows(const struct weights_want *want, size_t row_bytes, const void *src, char *dst)
{
    for (uint32_t i = 0; i < want->rows; i++) {
        uint32_t in_head = want->n_rot ? i % want->d_head : 0, from = i;
        if (in_head < want->n_rot)
            from = i - in_head + in_head % 2 * (want->n_rot / 2) + in_head / 2;
        memcpy(dst + i * row_bytes, (const char *)src + from * row_bytes, row_bytes);
    }
}

int weights_matrix(const struct weights *w, uint32_t layer, uint32_t cols,
                   const struct weights_want *want, uint32_t n, const struct kern_matrix **out,
                   struct err *e)
{
    struct kern_part part[KERN_MAX_PARTS] = {0};
    const struct gguf_tensor *tensor[KERN_MAX_PARTS];
    char *turned[KERN_MAX_PARTS] = {NULL};
    char name[NAME_BYTES];
    int rc = ERR_OK;
    for (uint32_t i = 0; i < n; i++) {
        tensor_name(name, want[i].name, layer);
        TRY(find_tensor(w->file, name, cols, want[i].rows, &tensor[i], e));
        part[i] = (struct kern_part){tensor[i]->type, want[i].rows, tensor[i]->data};
        if (!want[i].n_rot)
            continue;
        part[i].data = turned[i] = malloc(tensor[i]->bytes);
        if (!turned[i]) {
            rc = err_set(e, ERR_NOMEM, "weights: tensor %s: %zu bytes", name, tensor[i]->bytes);
            goto out;
        }
        copy_rows(&want[i], tensor[i]->bytes / want[i].rows, tensor[i]->data, turned[i]);
    }
    rc = w->ops->matrix(w->device, cols, part, n, out, e);
    if (rc != ERR_OK && e)
        rc = err_wrap(e, "weights: tensor %s", tensor_name(name, want[0].name, layer));
    for (uint32_t i = 0; i < n && rc == ERR_OK; i++)
        gguf_release(w->file, tensor[i]);
out:
    for (uint32_t i = 0; i < KERN_MAX_PARTS; i++)
        free(turned[i]);
    return rc;
}

int weights_vector(const struct weights *w, uint32_t layer, const struct weights_want *want,
                   uint32_t n, const struct kern_vector **out, struct err *e)
{
    const struct gguf_tensor *t;
    char name[NAME_BYTES];
    uint32_t total = 0, at = 0;
    int rc;
    for (uint32_t i = 0; i < n; i++)
        total += want[i].rows;
    float *values = calloc(total, sizeof *values);
    if (!values)
        return err_set(e, ERR_NOMEM, "weights: %u values", total);
    for (uint32_t i = 0; i < n; at += want[i++].rows) {
        tensor_name(name, want[i].name, layer);
        TRY(find_tensor(w->file, name, want[i].rows, 1, &t, e));
        if (t->type != DTYPE_F32) {
            rc = err_set(e, ERR_UNSUPPORTED, "weights: tensor %s: want F32, got %s", name,
                         dtype_name(t->type));
            goto out;
        }
        copy_rows(&want[i], sizeof *values, t->data, (char *)(values + at));
    }
    rc = w->ops->vector(w->device, values, total, out, e);
out:
    free(values);
    return rc;
}

static int out_of_range(const char *key, double got, struct weights_range r, struct err *e)
{
    return err_set(e, ERR_INVALID, "model: %s is %.9g: %.9g to %.9g is allowed", key, got, r.min,
                   r.max);
}

int weights_real(const struct gguf *g, const char *arch, const char *name,
                 struct weights_range range, double *out, struct err *e)
{
    char key[NAME_BYTES];
    double value;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    int rc = gguf_get_f64(g, key, &value, e);
    if (rc == ERR_NOT_FOUND && !range.is_needed)
        return ERR_OK;
    if (rc == ERR_NOT_FOUND)
        return err_set(e, ERR_INVALID, "model: key %s is missing", key);
    if (rc != ERR_OK)
        return rc;
    if (!(value >= range.min && value <= range.max))
        return out_of_range(key, value, range, e);
    *out = value;
    return ERR_OK;
}

int weights_u32(const struct gguf *g, const char *arch, const char *name,
                struct weights_range range, uint32_t *out, struct err *e)
{
    double value = *out;
    int rc = weights_real(g, arch, name, range, &value, e);
    if (rc == ERR_OK && value != (double)(uint32_t)value)
        return err_set(e, ERR_INVALID, "model: %s.%s is %.9g: a whole number is expected", arch,
                       name, value);
    if (rc == ERR_OK)
        *out = (uint32_t)value;
    return rc;
}
