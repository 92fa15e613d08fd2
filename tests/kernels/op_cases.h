/* tests/kernels/op_cases.h - every op of a backend on the same random inputs, at sizes of choice;
 * what comes out is compared by conformance_test.c (cpu) and simt/ops_test.c (the device). */
#ifndef TESTS_KERNELS_OP_CASES_H
#define TESTS_KERNELS_OP_CASES_H

#include "common/test.h"

#include "common/rng.h"
#include "kernels/ops.h"
#include "tests/harness/tiny_model.h"

#include <stdlib.h>

enum { MAX_TOK = 40, VOCAB = 50, CONTEXT = 160 };

struct flavour {
    const struct kern_ops *ops;
    const char *instruction_set;
};

/* What one device computes from the same inputs. */
struct outcome {
    float *embedded, *projected, *added, *gated, *logits, *attended, *summed, *joined, *plain;
};
enum { N_OUTPUTS = sizeof(struct outcome) / sizeof(float *) };

struct inputs {
    uint32_t n_tok, d_model, d_ff, q_width, kv_width;
    uint32_t dtype, other, output_type; /* the second: of v and up; the third: of output */
    bool has_fp8_weights;
    struct buf q, k, v, output, gate, up, table;
    float *norm, *x, *grid, *h, *qkv, *bias, *head_norm;
    struct kern_attn_shape attention;
    double inv_freq[KERN_MAX_ROPES][128]; /* of heads up to 256 */
    bool has_extras;                      /* bias, norms of heads, second RoPE, GELU, scales */
    uint32_t window;
    struct kern_step step;
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK], row[2];
    uint32_t block[3][CONTEXT / KERN_BLOCK_TOKENS];
    const uint32_t *tables[3];
    uint32_t base, *far_table[3]; /* of move_far */
};

void make_inputs(struct inputs *in, uint32_t dtype, uint32_t n_tok, uint32_t d_model, uint32_t d_ff,
                 uint32_t d_head, uint32_t n_head, uint32_t n_head_kv);
/* v and up get another type, as files of mixed types have it. */
void mix_types(struct inputs *in, uint32_t other);
/* output, which reads what gate and up give, gets another type. */
void set_output_type(struct inputs *in, uint32_t dtype);
/* All positions by `base` further on, a multiple of 16; the window must be at most FAR_WINDOW, as
 * no more is written before them. */
enum { FAR_WINDOW = 4 };
void move_far(struct inputs *in, uint32_t base);
void free_inputs(struct inputs *in);
/* False when this machine lacks the instruction set. */
bool compute(const struct flavour *f, struct inputs *in, uint32_t threads, struct outcome *out);
void free_outcome(struct outcome *o);

#endif
