/* kernels/cpu/inline.h - INLINE and UNROLL(n) for the inner loops: everything into one function
 * with constant trip counts, so that tiles stay in registers. Sanitizer builds leave both out:
 * every load is instrumented, and unrolled code of that size takes a compiler many minutes. */
#ifndef KERNELS_CPU_INLINE_H
#define KERNELS_CPU_INLINE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INLINE static inline
#define UNROLL(n)
#else
#define INLINE           static inline __attribute__((always_inline))
#define UNROLL(n)        UNROLL_PRAGMA(GCC unroll n)
#define UNROLL_PRAGMA(x) _Pragma(#x)
#endif

#endif
