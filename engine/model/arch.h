/* engine/model/arch.h - what an architecture is to model.c: load shapes and weights, run one step.
 *
 * An architecture reaches the device only through kernels/ops.h. Its state is one allocation that
 * model_close frees; weights and buffers belong to the device. */
#ifndef ENGINE_MODEL_ARCH_H
#define ENGINE_MODEL_ARCH_H

#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/ops.h"

struct model {
    const struct model_arch *arch;
    const struct kern_ops *ops;
    struct kern_device *device;
    struct kern_kv *kv;
    struct group *group; /* NULL: alone */
    bool can_draw;
    bool is_drawn;                /* of the step, also on ranks that do not draw; else logits */
    const struct kern_draw *draw; /* of the step; on the first rank */
    struct kern_drawn *drawn;
    uint32_t n_drawn; /* rows of the step before that a token below zero may name */
    struct model_options options;
    struct model_info info;
    char hash[33];
    char *name;
    void *state; /* the architecture's, freed with free() */
};

struct model_arch {
    const char *name; /* general.architecture */
    /* Fills info but for name and hash, state and kv. On failure model_close cleans up. */
    MUST_USE int (*load)(struct model *m, const struct gguf *g, struct err *e);
    /* Between ops->begin and the end of the step; ends with ops->head, or head_draw where
     * m->is_drawn. */
    void (*forward)(struct model *m, const struct model_batch *b, float *logits);
};

extern const struct model_arch ARCH_LLAMA, ARCH_QWEN2, ARCH_QWEN3, ARCH_QWEN3MOE, ARCH_GEMMA3;

/* ERR_UNSUPPORTED lists the known ones. */
MUST_USE int arch_find(struct str name, const struct model_arch **out, struct err *e);

#endif
