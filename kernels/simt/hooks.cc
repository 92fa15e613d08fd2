/* The calls that -fsanitize=thread puts before each memory access, answered here instead of by the
 * sanitizer's runtime: only kernels are compiled with it, and it is not linked. */
#include "kernels/simt/machine.h"

#ifndef __SANITIZE_ADDRESS__ /* which declares them otherwise, and has no check build */
#define HOOK(name, size, is_write)                                                                 \
    void name##size(void *p)                                                                       \
    {                                                                                              \
        simt::access(p, size, is_write, __builtin_return_address(0));                              \
    }
#define HOOKS(size)                                                                                \
    HOOK(__tsan_read, size, false)                                                                 \
    HOOK(__tsan_write, size, true)                                                                 \
    HOOK(__tsan_unaligned_read, size, false)                                                       \
    HOOK(__tsan_unaligned_write, size, true)

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, size_t n)
{
    simt::access(p, n, false, __builtin_return_address(0));
}
void __tsan_write_range(void *p, size_t n)
{
    simt::access(p, n, true, __builtin_return_address(0));
}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void *) {}
void __tsan_init(void)
{
    simt::m.is_checked = true;
}
}
#endif
