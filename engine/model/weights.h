/* engine/model/weights.h - tensors of a GGUF file onto a backend, with their shapes checked. */
#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include "engine/model/arch.h"

struct weight_want {
    const char *name; /* full tensor name */
    uint64_t n_rows, n_cols;
};

/* Messages name the tensor, the shape wanted and the one found. */
MUST_USE int weights_load(struct model *m, const struct gguf *file, const struct weight_want *want,
                          uint32_t n, enum kern_layout layout, struct kern_weight **out,
                          struct err *e);
/* A vector of n floats in a backend buffer, from F32, F16 or BF16. */
MUST_USE int weights_load_vector(struct model *m, const struct gguf *file, const char *name,
                                 uint64_t n, float **out, struct err *e);

#endif
