/* Stacks and switches. A switch saves what the calling convention wants kept and nothing else; the
 * new stack's first frame returns into the entry function. Same OS thread throughout. */
#include "kernels/simt/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt
{

enum { PAGE = 4096, TOP_GAP = 64 };
#ifdef __SANITIZE_ADDRESS__
const size_t FIBER_STACK_BYTES = 256 << 10;
#else
const size_t FIBER_STACK_BYTES = 64 << 10;
#endif

char *fiber_new_stack()
{
    void *p = mmap(NULL, FIBER_STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE) != 0)
        abort();
    return (char *)p + PAGE;
}

#ifdef SIMT_UCONTEXT

void fiber_prepare(fiber *f, char *stack, void (*entry)())
{
    f->stack = stack;
    f->shadow_stack = NULL;
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = FIBER_STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, entry, 0);
}

static void swap(fiber *from, fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#else

extern "C" void simt_swap_stacks(void **save, void *load);

#if defined(__x86_64__)
enum { SAVED_WORDS = 6, ENTRY_WORD = 6, FRAME_WORDS = 8 };
asm(".text\n.globl simt_swap_stacks\n.type simt_swap_stacks, @function\nsimt_swap_stacks:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n"
    ".size simt_swap_stacks, . - simt_swap_stacks\n");
#else
/* x19 to x30 and the low halves of v8 to v15 (AAPCS64, sections 6.1.1 and 6.1.2); ret goes to x30.
 */
enum { SAVED_WORDS = 20, ENTRY_WORD = 11, FRAME_WORDS = 20 };
asm(".text\n.globl simt_swap_stacks\n.type simt_swap_stacks, %function\nsimt_swap_stacks:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n"
    ".size simt_swap_stacks, . - simt_swap_stacks\n");
#endif

void fiber_prepare(fiber *f, char *stack, void (*entry)())
{
    void **frame = (void **)(stack + FIBER_STACK_BYTES - TOP_GAP) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[ENTRY_WORD] = (void *)entry;
    f->stack = stack;
    f->shadow_stack = NULL;
    f->stack_pointer = frame;
}

static void swap(fiber *from, fiber *to)
{
    simt_swap_stacks(&from->stack_pointer, to->stack_pointer);
}

#endif

#ifdef __SANITIZE_ADDRESS__

static const void *caller_bottom;
static size_t caller_bytes;

void fiber_switch(fiber *from, fiber *to, bool is_last)
{
    const void *bottom = to->stack ? to->stack : caller_bottom;
    size_t bytes = to->stack ? FIBER_STACK_BYTES : caller_bytes;
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->shadow_stack, bottom, bytes);
    swap(from, to);
    __sanitizer_finish_switch_fiber(from->shadow_stack, NULL, NULL);
}

void fiber_started(fiber *)
{
    __sanitizer_finish_switch_fiber(NULL, &caller_bottom, &caller_bytes);
}

#else

void fiber_switch(fiber *from, fiber *to, bool)
{
    swap(from, to);
}

void fiber_started(fiber *) {}

#endif

} // namespace simt
