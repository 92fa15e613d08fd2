/* The architectures of this build: a new one is a file arch_*.c and a line here. */
#include "engine/model/arch.h"

static const struct model_arch *const ARCHS[] = {&ARCH_LLAMA};

int arch_find(struct str name, const struct model_arch **out, struct err *e)
{
    for (size_t i = 0; i < sizeof ARCHS / sizeof *ARCHS; i++) {
        if (str_eq_c(name, ARCHS[i]->name)) {
            *out = ARCHS[i];
            return ERR_OK;
        }
    }
    struct str shown = str_slice(name, 0, 64);
    return err_set(e, ERR_UNSUPPORTED,
                   "architecture '" STR_FMT "' is not supported; supported: llama", STR_ARG(shown));
}
