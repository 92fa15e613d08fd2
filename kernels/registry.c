/* The backends of this build. A new one is a folder with a `const struct kern_ops` and a line here;
 * without a name the first that is here is taken. */
#include "kernels/ops.h"

#include <stdio.h>
#include <string.h>

static const struct kern_ops *const BACKENDS[] = {
#ifdef MILEPOST_WITH_CUDA
    &KERN_CUDA,
#endif
    &KERN_CPU, &KERN_REF, &KERN_SIMT};
enum { N_BACKENDS = sizeof BACKENDS / sizeof *BACKENDS };

const struct kern_ops *kern_at(uint32_t i)
{
    return i < N_BACKENDS ? BACKENDS[i] : NULL;
}

static bool is_here(const struct kern_ops *k)
{
    return !k->is_here || k->is_here();
}

int kern_find(const char *name, const struct kern_ops **out, struct err *e)
{
    char known[80] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < N_BACKENDS; i++) {
        const struct kern_ops *k = BACKENDS[i];
        if (name ? strcmp(k->name, name) == 0 : is_here(k)) {
            *out = k;
            return ERR_OK;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", k->name);
    }
    return err_set(e, ERR_NOT_FOUND, "backend '%s' is not in this build, which has %s", name,
                   known);
}
