/* kernels/dtype.h - element types of tensors, numbered as in GGUF files, and their block layouts.
 *
 * A block is `elements` consecutive values of a row in `bytes` bytes. Layouts: ggml's block formats
 * (docs/gguf.md of the ggml repository and its ggml-common.h). Pure; any thread. */
#ifndef KERNELS_DTYPE_H
#define KERNELS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_F32 = 0,
    DTYPE_F16 = 1,
    DTYPE_Q4_0 = 2,
    DTYPE_Q4_1 = 3,
    DTYPE_Q5_0 = 6,
    DTYPE_Q5_1 = 7,
    DTYPE_Q8_0 = 8,
    DTYPE_Q4_K = 12,
    DTYPE_Q5_K = 13,
    DTYPE_Q6_K = 14,
    DTYPE_BF16 = 30
};

/* False for a type this build does not know. */
bool dtype_layout(uint32_t type, uint32_t *elements, size_t *bytes);
const char *dtype_name(uint32_t type); /* "?" for an unknown one */
const char *dtype_known_names(void);   /* "F32 F16 ..." for messages */
/* n values (a multiple of the block) from src to dst as float32. The type must be known. */
void dtype_to_f32(uint32_t type, const void *src, float *dst, size_t n);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* round to nearest even; overflow gives infinity */
float bf16_to_f32(uint16_t h);

#endif
