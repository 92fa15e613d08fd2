/* kernels/cuda/dev_cuda.h - the one matrix product of dev.h on cuBLASLt (gemm_cublas.c). */
#ifndef KERNELS_CUDA_DEV_CUDA_H
#define KERNELS_CUDA_DEV_CUDA_H

#include "kernels/cuda/dev.h"

/* As dev_ops.gemm_ready. Any thread. */
MUST_USE int cublas_ready(struct err *e);
/* Launches on the stream. False: cuBLASLt is not here, or refused. Any thread. */
bool cublas_gemm(const struct dev_gemm *g, struct dev_stream *s);

#endif
