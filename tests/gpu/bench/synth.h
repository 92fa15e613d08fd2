/* tests/gpu/bench/synth.h - models of real shapes with random weights, for measuring: a GGUF file
 * in memory whose matrices all lie over the same random bytes, so that 8 billion weights take one
 * gigabyte here. They say nothing sensible. */
#ifndef TESTS_GPU_BENCH_SYNTH_H
#define TESTS_GPU_BENCH_SYNTH_H

#include "common/err.h"

#include <stdint.h>

struct synth_shape {
    const char *name, *architecture;
    uint32_t n_layer, d_model, n_head, n_head_kv, d_head, d_ff, n_vocab, n_expert, n_expert_used;
    bool has_own_head;
};

/* NULL: unknown. */
const struct synth_shape *synth_find(const char *name);
/* "synth-1b, synth-8b, ..." */
const char *synth_names(void);
/* DTYPE_* of "bf16", "q8_0", "q4_0", ...; false: unknown. */
bool synth_dtype(const char *name, uint32_t *out);

/* The file; path is good until close(*fd). */
enum { SYNTH_PATH_BYTES = 40 };
MUST_USE int synth_make(const struct synth_shape *s, uint32_t dtype, uint32_t n_ctx, int *fd,
                        char path[SYNTH_PATH_BYTES], struct err *e);

/* Weights that one token's step goes through, and all those of n_tok tokens that choose experts
 * at random: bytes of a dtype with so many bytes a weight. Without the embedding's table. */
double synth_step_weights(const struct synth_shape *s, uint32_t n_tok);
/* Multiply-adds of one token's matrices. */
double synth_token_macs(const struct synth_shape *s);

#endif
