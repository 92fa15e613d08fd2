/* engine/model/weights.h - tensors of a file, checked by name, shape and type, onto a device. */
#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include "engine/model/gguf.h"
#include "kernels/ops.h"

struct weights {
    const struct gguf *file;
    const struct kern_ops *ops;
    struct kern_device *device;
};

/* `n` of the file's `of` rows or columns, from `from` on: all of them, or one rank's. */
struct weights_span {
    uint32_t from, n, of;
};
static inline struct weights_span weights_all(uint32_t n)
{
    return (struct weights_span){0, n, n};
}
/* Of things that have `by` rows each. */
static inline struct weights_span weights_times(struct weights_span s, uint32_t by)
{
    return (struct weights_span){s.from * by, s.n * by, s.of * by};
}

/* One tensor [cols, rows], plane `plane` of a tensor [cols, rows, n_planes], or F32 [rows] for a
 * vector. With n_rot, the file pairs row i of each d_head rows with row i + n_rot / 2, and it is
 * loaded so that pairs are neighbours (ops.h); then rows begins at a multiple of d_head. */
struct weights_want {
    const char *name; /* with the layer's number at %u */
    struct weights_span rows;
    uint32_t d_head, n_rot;   /* 0: as it stands */
    uint32_t plane, n_planes; /* n_planes 0: no third dimension */
};

/* The named tensors of layer `layer`, stacked. Errors name the tensor, what is wanted and what was
 * found. n <= KERN_MAX_PARTS. ERR_UNSUPPORTED: cols cuts a block of the file. */
MUST_USE int weights_matrix(const struct weights *w, uint32_t layer, struct weights_span cols,
                            const struct weights_want *want, uint32_t n,
                            const struct kern_matrix **out, struct err *e);
MUST_USE int weights_vector(const struct weights *w, uint32_t layer,
                            const struct weights_want *want, uint32_t n,
                            const struct kern_vector **out, struct err *e);

/* Integer or real key of an architecture, "<arch>.<name>". Absent: *out stays and ERR_OK when
 * `is_needed` is false. Outside min..max: ERR_INVALID with both. */
struct weights_range {
    double min, max;
    bool is_needed;
};
MUST_USE int weights_u32(const struct gguf *g, const char *arch, const char *name,
                         struct weights_range range, uint32_t *out, struct err *e);
MUST_USE int weights_real(const struct gguf *g, const char *arch, const char *name,
                          struct weights_range range, double *out, struct err *e);

#endif
