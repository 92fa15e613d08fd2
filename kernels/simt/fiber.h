/* kernels/simt/fiber.h - switching between stacks inside one OS thread.
 *
 * Hand-written for x86-64 and aarch64 (a swapcontext would cost a system call a switch); ucontext
 * on other processors, or where SIMT_UCONTEXT is defined. AddressSanitizer is told of every switch.
 */
#ifndef KERNELS_SIMT_FIBER_H
#define KERNELS_SIMT_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#endif
#ifdef SIMT_UCONTEXT
#include <ucontext.h>
#endif

namespace simt
{

struct fiber {
    void *stack_pointer;
    char *stack; /* NULL: the caller's own */
    void *shadow_stack;
#ifdef SIMT_UCONTEXT
    ucontext_t context;
#endif
};

extern const size_t FIBER_STACK_BYTES;

/* A stack of FIBER_STACK_BYTES with a guard page below; kept by the caller for ever. */
char *fiber_new_stack();
/* The fiber starts in entry(), which must never return. */
void fiber_prepare(fiber *f, char *stack, void (*entry)());
/* Leaves `from`, goes on in `to`. is_last: `from` never comes back. */
void fiber_switch(fiber *from, fiber *to, bool is_last);
/* First thing in entry(): where it came from. */
void fiber_started(fiber *caller);

} // namespace simt

#endif
