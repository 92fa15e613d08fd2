/* tests/harness/tiny_model.h - writes a small model with seeded random weights and a byte-level BPE
 * vocabulary (the SmolLM split, ChatML), for tests of everything around a model.
 *
 * Token ids: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, then the 256 bytes in byte order, then
 * the merges. */
#ifndef TESTS_HARNESS_TINY_MODEL_H
#define TESTS_HARNESS_TINY_MODEL_H

#include "common/buf.h"
#include "common/err.h"

enum { TINY_BYTE_TOKEN = 3 }; /* id of byte 0 */

struct tiny_model {
    uint64_t seed;
    const char *architecture; /* llama, qwen2, qwen3, qwen3moe or gemma3 */
    uint32_t n_layer, d_model, n_head, n_head_kv, d_head, d_ff, n_ctx;
    uint32_t window, window_period;         /* gemma3 */
    uint32_t n_expert, n_expert_used;       /* llama (Mixtral) and qwen3moe; d_ff is of one */
    uint32_t matrix_dtype, embedding_dtype; /* DTYPE_* of random blocks */
    bool has_own_head;                      /* output.weight beside the embedding */
};

/* llama, 2 layers of width 64, 4 heads sharing 2 KV heads, feed-forward 128, context 2048, Q4_1
 * with a Q8_0 embedding. */
struct tiny_model tiny_model_default(void);
/* The same in another architecture, with what it is known for: heads wider than d_model / n_head,
 * windows of 8 in two layers of three, another type, two of eight experts (also "mixtral", which is
 * a llama with experts). An unknown name makes no
 * file. */
struct tiny_model tiny_model_of(const char *architecture);
/* The file's bytes, appended to out. */
MUST_USE int tiny_model_make(const struct tiny_model *t, struct buf *out, struct err *e);
MUST_USE int tiny_model_write(const struct tiny_model *t, const char *path, struct err *e);

/* n random elements (a whole number of blocks) of the type, finite and of size about `scale`,
 * appended to out. For models and for tests of kernels. */
struct rng;
void tiny_random_blocks(struct rng *r, uint32_t dtype, size_t n, double scale, struct buf *out);

#endif
