/* tests/kernels/simt/ptx_cases.h - every wrapper of kernels/cuda/ptx.h, hopper.h and number.h in a
 * kernel of its own, over words in and words out, so that a device's asm and the emulator's host
 * body can be compared bit by bit (ptx_test.c). */
#ifndef TESTS_KERNELS_SIMT_PTX_CASES_H
#define TESTS_KERNELS_SIMT_PTX_CASES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dev_stream;

enum ptx_input {
    PTX_BITS,   /* any words */
    PTX_SMALL,  /* pairs of bfloat16 whole numbers up to 8: sums of products are exact */
    PTX_FLOATS, /* float32 of all sizes, infinities and NaNs among them */
};

enum { PTX_MAX_WORDS = 8192 };

struct ptx_case {
    const char *name;
    enum ptx_input input;
    unsigned n_in, n_out; /* words */
    /* in and out: device memory, 1024-byte aligned. */
    void (*launch)(const uint32_t *in, uint32_t *out, struct dev_stream *s);
    /* What out must be, by the instruction set's text; host memory. NULL: only compared between
     * device and emulator. */
    void (*expect)(const uint32_t *in, uint32_t *out);
};

/* Two builds of one table; its end has no name. */
extern const struct ptx_case PTX_CASES_SIMT[], PTX_CASES_CUDA[];

#ifdef __cplusplus
}
#endif
#endif
