/* Every tensor is checked against the shape the metadata promises before the device sees it; pages
 * of the mapping are given back once copied, so that no second copy stays resident. */
#include "engine/model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, SHAPE_BYTES = 96 };

static const char *tensor_name(char out[NAME_BYTES], const char *pattern, uint32_t layer)
{
    const char *mark = strstr(pattern, "%u");
    if (mark)
        snprintf(out, NAME_BYTES, "%.*s%u%s", (int)(mark - pattern), pattern, layer, mark + 2);
    else
        snprintf(out, NAME_BYTES, "%s", pattern);
    return out;
}

static const char *shape_text(char out[SHAPE_BYTES], const uint64_t d[4])
{
    int n = snprintf(out, SHAPE_BYTES, "[%llu, %llu", (unsigned long long)d[0],
                     (unsigned long long)d[1]);
    if (d[2] != 1 || d[3] != 1)
        n += snprintf(out + n, SHAPE_BYTES - (size_t)n, ", %llu", (unsigned long long)d[2]);
    if (d[3] != 1)
        n += snprintf(out + n, SHAPE_BYTES - (size_t)n, ", %llu", (unsigned long long)d[3]);
    snprintf(out + n, SHAPE_BYTES - (size_t)n, "]");
    return out;
}

static int find_tensor(const struct gguf *g, const char *name, uint64_t cols, uint64_t rows,
                       uint64_t planes, const struct gguf_tensor **out, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    const uint64_t want[4] = {cols, rows, planes ? planes : 1, 1};
    char want_text[SHAPE_BYTES], got_text[SHAPE_BYTES];
    if (!t)
        return err_set(e, ERR_INVALID,
                       "weights: tensor %s is missing (want %s): is the file a whole model of this "
                       "architecture?",
                       name, shape_text(want_text, want));
    if (memcmp(t->dim, want, sizeof want) != 0)
        return err_set(e, ERR_INVALID,
                       "weights: tensor %s: want %s, got %s: does it belong to this model?", name,
                       shape_text(want_text, want), shape_text(got_text, t->dim));
    *out = t;
    return ERR_OK;
}

/* How rows of the file become rows of a part: which bytes of each, and from where. */
struct cut {
    struct weights_span rows;
    size_t row_bytes, first_byte, bytes; /* in the file; of what is taken */
    size_t first_row;                    /* of the plane */
    uint32_t d_head, n_rot;
};

/* Pairs that stand half of n_rot apart become neighbours. */
static void copy_rows(const struct cut *c, const void *src, char *dst)
{
    for (uint32_t i = 0; i < c->rows.n; i++) {
        uint32_t in_head = c->n_rot ? i % c->d_head : 0, from = i;
        if (in_head < c->n_rot)
            from = i - in_head + in_head % 2 * (c->n_rot / 2) + in_head / 2;
        const char *row = (const char *)src + (c->first_row + from) * c->row_bytes;
        memcpy(dst + i * c->bytes, row + c->first_byte, c->bytes);
    }
}

static int find_cut(const struct gguf_tensor *t, const char *name, const struct weights_want *want,
                    struct weights_span cols, struct cut *out, struct err *e)
{
    uint32_t elements;
    size_t block_bytes;
    *out = (struct cut){.rows = want->rows, .d_head = want->d_head, .n_rot = want->n_rot};
    out->row_bytes = t->bytes / want->rows.of / (want->n_planes ? want->n_planes : 1);
    out->first_row = (size_t)want->plane * want->rows.of + want->rows.from;
    out->bytes = out->row_bytes;
    if (cols.n == cols.of)
        return ERR_OK;
    if (!dtype_layout(t->type, &elements, &block_bytes) || cols.from % elements ||
        cols.n % elements)
        return err_set(e, ERR_UNSUPPORTED,
                       "weights: tensor %s: columns %u to %u cut a block of %s (%u elements): "
                       "choose another engine.tp_size",
                       name, cols.from, cols.from + cols.n, dtype_name(t->type), elements);
    out->first_byte = cols.from / elements * block_bytes;
    out->bytes = cols.n / elements * block_bytes;
    return ERR_OK;
}

/* The part's rows as the device wants them: where they lie in the file, or a copy. */
static int cut_part(const struct gguf_tensor *t, const char *name, const struct cut *c,
                    struct kern_part *part, char **copy, struct err *e)
{
    *part =
        (struct kern_part){t->type, c->rows.n, (const char *)t->data + c->first_row * c->row_bytes};
    if (!c->n_rot && c->bytes == c->row_bytes)
        return ERR_OK;
    part->data = *copy = malloc(c->rows.n * c->bytes);
    if (!*copy)
        return err_set(e, ERR_NOMEM, "weights: tensor %s: %zu bytes", name, c->rows.n * c->bytes);
    copy_rows(c, t->data, *copy);
    return ERR_OK;
}

int weights_matrix(const struct weights *w, uint32_t layer, struct weights_span cols,
                   const struct weights_want *want, uint32_t n, const struct kern_matrix **out,
                   struct err *e)
{
    struct kern_part part[KERN_MAX_PARTS] = {0};
    const struct gguf_tensor *tensor[KERN_MAX_PARTS];
    char *copy[KERN_MAX_PARTS] = {NULL};
    char name[NAME_BYTES];
    struct cut cut;
    int rc = ERR_OK;
    for (uint32_t i = 0; i < n; i++) {
        tensor_name(name, want[i].name, layer);
        TRY(find_tensor(w->file, name, cols.of, want[i].rows.of, want[i].n_planes, &tensor[i], e));
        TRY(find_cut(tensor[i], name, &want[i], cols, &cut, e));
        TRY(cut_part(tensor[i], name, &cut, &part[i], &copy[i], e));
    }
    rc = w->ops->matrix(w->device, cols.n, part, n, out, e);
    if (rc != ERR_OK && e)
        rc = err_wrap(e, "weights: tensor %s", tensor_name(name, want[0].name, layer));
    for (uint32_t i = 0; i < n && rc == ERR_OK; i++)
        gguf_release(w->file, tensor[i]);
out:
    for (uint32_t i = 0; i < KERN_MAX_PARTS; i++)
        free(copy[i]);
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
        total += want[i].rows.n;
    float *values = calloc(total, sizeof *values);
    if (!values)
        return err_set(e, ERR_NOMEM, "weights: %u values", total);
    for (uint32_t i = 0; i < n; at += want[i++].rows.n) {
        tensor_name(name, want[i].name, layer);
        TRY(find_tensor(w->file, name, want[i].rows.of, 1, 0, &t, e));
        if (t->type != DTYPE_F32) {
            rc = err_set(e, ERR_UNSUPPORTED, "weights: tensor %s: want F32, got %s", name,
                         dtype_name(t->type));
            goto out;
        }
        const struct cut cut = {.rows = want[i].rows,
                                .row_bytes = sizeof *values,
                                .bytes = sizeof *values,
                                .first_row = want[i].rows.from,
                                .d_head = want[i].d_head,
                                .n_rot = want[i].n_rot};
        copy_rows(&cut, t->data, (char *)(values + at));
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
