/* kernels/cuda/panel.h - weights on the device: formats, and the streams of a matrix of one format.
 */
#ifndef KERNELS_CUDA_PANEL_H
#define KERNELS_CUDA_PANEL_H

#include <stdbool.h>
#include <stdint.h>

/* Weight formats on the device; which GGUF type becomes which: pack.c. */
enum panel_format {
    PANEL_F32,
    PANEL_F16,
    PANEL_BF16,
    PANEL_Q8_0,
    PANEL_Q4_0,
    PANEL_Q4_1,
    PANEL_Q5_0,
    PANEL_Q5_1,
    PANEL_Q4_K,
    PANEL_Q5_K,
    PANEL_Q6_K,
    PANEL_FP8,
    N_PANEL_FORMATS
};

/* Weights [rows, cols] in streams of their own, row after row, so that neighbouring lanes load
 * neighbouring 16 bytes. A unit is what 16 bytes of `low` hold: 32 weights of 4 to 6 bits, 16 of
 * Q8_0 or fp8, 8 of f16 or bf16, 4 of f32. Rows of f32 and f16 are padded with zeros to whole
 * units, of bf16 to four, of fp8 to two. All but f32 and f16 stand in groups for tensor cores,
 * eight rows together (tile.h).
 */
enum { TILE_EIGHT = 8 };
struct panel {
    uint32_t format, rows, cols, units; /* units of a row */
    const void *low;                    /* [rows][units] 16 bytes */
    const void *high;                   /* Q5: a bit an element, Q6: two; else NULL */
    const void *scale;                  /* f16 a block of 32 (two: scale, minimum, where the type
                                           has both); Q4_K, Q5_K: 16 bytes a block of 256 as in the
                                           file; Q6_K: 16 signed bytes a block of 256; fp8:
                                           float32 a row */
    const void *super;                  /* Q6_K: f16 a block of 256; else NULL */
};

static inline bool format_has_tiles(uint32_t format)
{
    return format != PANEL_F32 && format != PANEL_F16;
}

enum { FUSED_TOKENS = 8, FUSED_BYTES = 68 << 10 };

/* Shared memory of a block that splits n rows itself: 128 bytes for 32 columns, and their sum. */
static inline size_t fused_bytes(const struct panel *w, uint32_t n)
{
    return (size_t)n * ((w->cols + 31) / 32) * (128 + sizeof(float));
}

#endif
