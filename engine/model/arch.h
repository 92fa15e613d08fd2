/* engine/model/arch.h - what an architecture file gives, and what it gets to work with.
 *
 * An architecture knows shapes and the order of operations, no device: everything it computes goes
 * through struct kern_ops. */
#ifndef ENGINE_MODEL_ARCH_H
#define ENGINE_MODEL_ARCH_H

#include "common/arena.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/ops.h"

struct model {
    const struct model_arch *arch;
    const struct kern_ops *ops;
    struct kern *kern;
    struct model_info info;
    struct model_options options;
    struct arena arena; /* names, tables: life of the model */
    void *state;        /* the architecture's */
};

struct model_arch {
    const char *name; /* general.architecture */
    /* Fills m->info and m->state. On failure it may leave a half-filled state: close follows. */
    int (*open)(struct model *m, const struct gguf *file, struct err *e);
    void (*close)(struct model *m); /* state may be NULL */
    int (*forward)(struct model *m, const struct model_batch *b, float *logits, struct err *e);
};

/* ERR_UNSUPPORTED lists the known ones. */
MUST_USE int model_arch_find(const struct model_arch **out, struct str name, struct err *e);

extern const struct model_arch ARCH_LLAMA;

#endif
