/* engine/sample/softmax.h - exponentials over a whole vocabulary, vectorised by the compiler.
 *
 * The same result bit for bit on every instruction set: fixed lanes, no contraction. Pure; any
 * thread. NaN in gives NaN out, so a caller checks one number instead of n. */
#ifndef ENGINE_SAMPLE_SOFTMAX_H
#define ENGINE_SAMPLE_SOFTMAX_H

#include <stddef.h>

enum { SOFTMAX_BLOCK = 256 }; /* values; the last block of a row may be shorter */

static inline size_t softmax_blocks(size_t n)
{
    return (n + SOFTMAX_BLOCK - 1) / SOFTMAX_BLOCK;
}

struct softmax_ops {
    const char *name; /* "avx512", "avx2", "plain" */
    /* Largest of x[0..n), n >= 1. NaN is skipped. */
    float (*max)(const float *x, size_t n);
    /* The same of every block: most [softmax_blocks(n)]. */
    void (*block_max)(const float *x, size_t n, float *most);
    /* out[i] = exp((x[i] - shift) * scale); returns their sum. out may not alias x; NULL: only the
     * sum. sums: [softmax_blocks(n)] of each block, NULL: not wanted. */
    double (*exp_all)(const float *x, size_t n, float shift, float scale, float *out, double *sums);
};

/* The widest this machine runs. */
const struct softmax_ops *softmax_select(void);
/* Row i of the table this build knows, NULL past its end; for tests. */
const struct softmax_ops *softmax_at(size_t i);

#endif
