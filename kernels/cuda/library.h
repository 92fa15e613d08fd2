/* kernels/cuda/library.h - products of large steps by the device's own library (dev_gemm), where
 * engine.gemm asks for it. It needs one pass where product_mma.cu has one for 64 tokens, but
 * chooses its order of sums by the shape of the step, so a token's bits depend on how its prompt
 * was cut.
 *
 * Weights and activations of f32 meet as they are; all others as bfloat16, to which weights are
 * unpacked a slice of rows at a time: no second copy of a matrix is kept. Experts and the head
 * stay with our own kernels. */
#ifndef KERNELS_CUDA_LIBRARY_H
#define KERNELS_CUDA_LIBRARY_H

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/dev.h"

/* Below this own kernels read the weights twice at most. Steps without a prompt never go to the
 * library, as they may be captured in graphs. */
enum { LIBRARY_TOKENS = 128 };

struct kern_device;
struct kern_matrix;

struct device_library {
    bool is_on, is_of_step;
    size_t slice_bytes; /* of each of the two: an unpacked slice, and gates and ups of one */
    void *weights, *workspace;
    float *both;
    uint64_t n_products; /* slices given to the library */
};

/* ERR_UNSUPPORTED: no such library here. */
MUST_USE int library_open(struct kern_device *d, struct err *e);
/* The step's view and tiles are known. */
void library_begin(struct kern_device *d);
bool library_takes(const struct kern_device *d, const struct product_args *a);
/* As device_products. */
void library_products(struct kern_device *d, struct product_args a, const struct kern_matrix *w);

#endif
