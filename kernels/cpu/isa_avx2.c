/* The same loops compiled for AVX2 (see CMakeLists.txt): the compiler makes 8-lane vectors of them.
 * The file is empty on other processors. */
#if defined(__x86_64__)
#include "kernels/dtype.h"

#define BODY(name) avx2_##name
#include "kernels/cpu/body.h"

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

const struct cpu_isa CPU_ISA_AVX2 = BODY_TABLE("avx2", has_avx2);
#else
typedef int kernels_cpu_isa_avx2_is_empty;
#endif
