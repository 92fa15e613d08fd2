/* kernels/cuda/dev_cuda.h - the one matrix product of dev.h on cuBLASLt (gemm_cublas.c). */
#ifndef KERNELS_CUDA_DEV_CUDA_H
#define KERNELS_CUDA_DEV_CUDA_H

#include "kernels/cuda/dev.h"

/* Launches on the stream. False: cuBLASLt refused or has no memory. Worker thread only. */
bool cublas_gemm(const struct dev_gemm *g, struct dev_stream *s);

#endif
