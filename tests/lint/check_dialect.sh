#!/usr/bin/env bash
# check_dialect.sh - kernels keep to what kernels/cuda/dialect.h says, so that the emulator runs the
# very source nvcc compiles; the CUDA runtime and cuBLASLt are known to one file each.
. "$(dirname "$0")/lint.sh"

forbidden='\basm\b|__shared__|<<<|\bcooperative_groups\b|\bthrust::|\bcub::|\bprintf\s*\(|\bstatic\s+__global__'
for file in $(sources cu); do
    while IFS= read -r hit; do
        finding "$file:$hit: not in the kernel dialect (kernels/cuda/dialect.h)"
    done < <(code_of "$file" | grep -nP "$forbidden")
done
while IFS= read -r hit; do
    finding "$hit: only kernels/cuda/ptx.h and hopper.h may hold device asm, kernels/simt/fiber.cc the switch"
done < <(grep -nE '\basm\b' $(sources c h cc) /dev/null | grep -E '^kernels/(cuda|simt)' |
    grep -vE '^kernels/(cuda/(ptx|hopper)\.h|simt/fiber\.cc):' | grep -vE ':\s*\*|/\*' | cut -d: -f1,2)
while IFS= read -r hit; do
    finding "$hit: only dev_cuda.c and dialect.h know cudart, only gemm_cublas.c knows cuBLASLt"
done < <(grep -nE '#include <(cuda_runtime|cublasLt)' $(sources c h cc cu) /dev/null |
    grep -vE '^kernels/cuda/(dev_cuda\.c|dialect\.h|gemm_cublas\.c|dev_cuda\.h):' | cut -d: -f1,2)
report lint.dialect "$(sources cu | wc -l) kernel files"
