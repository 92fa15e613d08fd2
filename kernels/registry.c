/* The backends of this build, fastest first. */
#include "kernels/ops.h"

#include <string.h>

static const struct kern_ops *const BACKENDS[] = {&KERN_REF};

int kern_find(const struct kern_ops **out, const char *name, struct err *e)
{
    bool is_auto = !name || strcmp(name, "auto") == 0;
    for (size_t i = 0; i < sizeof BACKENDS / sizeof *BACKENDS; i++) {
        if (!is_auto && strcmp(name, BACKENDS[i]->name) != 0)
            continue;
        if (BACKENDS[i]->is_available()) {
            *out = BACKENDS[i];
            return ERR_OK;
        }
        if (!is_auto)
            return err_set(e, ERR_UNSUPPORTED, "backend %s cannot run on this machine", name);
    }
    return err_set(e, ERR_UNSUPPORTED, "backend '%s' is not known: auto, cpu, ref", name);
}
