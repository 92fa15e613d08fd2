/* The portable instruction set: what every machine runs. */
#include "kernels/dtype.h"

#define BODY(name) plain_##name
#include "kernels/cpu/body.h"

static bool always(void)
{
    return true;
}

const struct cpu_isa CPU_ISA_PLAIN = BODY_TABLE("plain", always);
