/* The backends of this build. A new one is a folder with a `const struct kern_ops` and a line here;
 * the first is the default. */
#include "kernels/ops.h"

#include <string.h>

static const struct kern_ops *const BACKENDS[] = {&KERN_CPU, &KERN_REF};
enum { N_BACKENDS = sizeof BACKENDS / sizeof *BACKENDS };

const struct kern_ops *kern_at(uint32_t i)
{
    return i < N_BACKENDS ? BACKENDS[i] : NULL;
}

int kern_find(const char *name, const struct kern_ops **out, struct err *e)
{
    for (uint32_t i = 0; i < N_BACKENDS; i++) {
        if (!name || strcmp(BACKENDS[i]->name, name) == 0) {
            *out = BACKENDS[i];
            return ERR_OK;
        }
    }
    return err_set(e, ERR_NOT_FOUND, "backend '%s' is not known; known: cpu, ref", name);
}
