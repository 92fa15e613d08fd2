/* The architectures of this build: a new one is a file arch_*.c and a line here. */
#include "engine/model/arch.h"

#include "common/buf.h"

static const struct model_arch *const ARCHS[] = {&ARCH_LLAMA, &ARCH_QWEN2, &ARCH_QWEN3,
                                                 &ARCH_QWEN3MOE, &ARCH_GEMMA3};
enum { N_ARCHS = sizeof ARCHS / sizeof *ARCHS };

int arch_find(struct str name, const struct model_arch **out, struct err *e)
{
    struct buf known;
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (str_eq_c(name, ARCHS[i]->name)) {
            *out = ARCHS[i];
            return ERR_OK;
        }
    }
    buf_init(&known, KiB);
    for (size_t i = 0; i < N_ARCHS; i++)
        buf_printf(&known, " %s", ARCHS[i]->name);
    int rc = err_set(e, ERR_UNSUPPORTED,
                     "architecture '" STR_FMT "' is not supported; supported:" STR_FMT,
                     STR_ARG(str_slice(name, 0, 64)), STR_ARG(buf_str(&known)));
    buf_free(&known);
    return rc;
}
