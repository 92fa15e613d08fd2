/* The architectures of this build. A new one: its file, a declaration in arch.h, a line here. */
#include "engine/model/arch.h"

static const struct model_arch *const ARCHS[] = {&ARCH_LLAMA};

int model_arch_find(const struct model_arch **out, struct str name, struct err *e)
{
    char known[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof ARCHS / sizeof *ARCHS; i++) {
        struct str one = str_from(ARCHS[i]->name);
        if (str_eq(one, name)) {
            *out = ARCHS[i];
            return ERR_OK;
        }
        for (size_t c = 0; c < one.n && used + 2 < sizeof known; c++)
            known[used++] = one.p[c];
        known[used++] = ' ';
    }
    return err_set(e, ERR_UNSUPPORTED, "architecture '" STR_FMT "' is not known; known: %s",
                   STR_ARG(str_slice(name, 0, 64)), known);
}
