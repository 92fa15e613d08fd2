/* Choosing the instruction set. */
#include "kernels/cpu/isa.h"

#include <string.h>

static const struct cpu_isa *const ISAS[] = {
#if defined(__x86_64__)
    &CPU_ISA_AVX512,
    &CPU_ISA_AVX2,
#endif
    &CPU_ISA_PLAIN,
};

const struct cpu_isa *cpu_isa_select(const char *name)
{
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++)
        if ((!name || strcmp(name, ISAS[i]->name) == 0) && ISAS[i]->is_available())
            return ISAS[i];
    return NULL;
}
