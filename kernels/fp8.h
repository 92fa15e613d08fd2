/* kernels/fp8.h - weights as e4m3 bytes (arXiv 2209.05433) with one float32 step a row: what
 * kern_options.has_fp8_weights makes of bf16 matrices. Pure; any thread. */
#ifndef KERNELS_FP8_H
#define KERNELS_FP8_H

#include <stdint.h>

/* The step of a row whose largest magnitude is `most`: that becomes 448, e4m3's largest. 1 where
 * there is none. */
float fp8_step(float most);
/* Round to nearest even; beyond 448: 448, also for NaN. */
uint8_t fp8_from_f32(float v);
float fp8_to_f32(uint8_t b); /* b is not a NaN: fp8_from_f32 makes none */

#endif
