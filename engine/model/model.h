/* engine/model/model.h - a language model as the engine sees it: tokens in, logits out.
 *
 * A model reads and writes a paged KV cache: sequence i of a batch owns a block table; position p
 * lives in block table[p / KV_BLOCK_TOKENS], slot p % KV_BLOCK_TOKENS. The scheduler owns the
 * tables; the model owns the memory. An architecture is one file arch_*.c that exports a
 * `const struct model_arch` and adds a line to registry.c. One worker thread calls everything here
 * but model_open; nothing blocks on I/O.
 *
 * Determinism: the logits of a position depend only on the tokens before it, never on what else is
 * in the batch nor on how the prompt was cut into chunks, bit for bit, so that a request with a
 * seed gives the same tokens alone and inside any batch. */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include "common/err.h"
#include "common/str.h"

#include <stdint.h>

#define KV_BLOCK_TOKENS 16u

struct comm;
struct kern_draw;
struct kern_drawn;
struct model;
struct gguf;

struct model_info {
    struct str arch; /* "llama" */
    struct str name; /* general.name, may be empty */
    uint32_t n_vocab, n_layer, n_head, n_head_kv, d_model, d_head, d_ff;
    uint32_t n_expert, n_expert_used; /* of each layer, by a token; 0: one feed-forward layer for
                                         all. d_ff is then of one expert */
    uint32_t n_ctx_train;             /* positions the model was trained for */
    size_t weight_bytes;              /* resident */
    size_t kv_bytes_per_block;
    struct str weights_hash; /* short hex digest of the file's content, for `weights version` */
};

/* As kern_kv_type (kernels/attention.h). */
enum model_kv_type { MODEL_KV_F16, MODEL_KV_INT8, MODEL_KV_BF16, MODEL_KV_FP8 };

struct model_options {
    const char *backend;  /* a name of kernels/registry.c; NULL: the best of this machine */
    uint32_t n_threads;   /* 0 = usable cores (affinity mask and cgroup quota) */
    uint32_t n_kv_blocks; /* size of the KV pool */
    enum model_kv_type kv_type;
    bool has_fp8_weights;        /* bf16 matrices are kept as fp8 (kernels/fp8.h) */
    bool has_library_gemm;       /* as kern_options.has_library_gemm */
    uint32_t max_batch_tokens;   /* largest n_tok of a batch */
    uint32_t max_batch_rows;     /* largest number of rows with logits in a batch */
    const char *instruction_set; /* of backend cpu; NULL: the best of this machine */
    struct comm *ranks;          /* kernels/comm: computes it together with others; NULL: alone */
    bool no_graphs;              /* launch each op of a decoding step, for comparisons */
};

/* One step's work. Tokens of one sequence are consecutive and in order of position. */
struct model_batch {
    uint32_t n_tok;
    const int32_t *token;     /* [n_tok]; below zero: what row -1 - token of the step started before
                                 this one drew */
    const uint32_t *position; /* [n_tok] */
    const uint32_t *seq;      /* [n_tok] index into block_table */
    const uint32_t *const *block_table; /* [n_seq] -> block ids of that sequence */
    uint32_t n_row;                     /* how many logits rows are wanted */
    const uint32_t *row_token;          /* [n_row] index into the n_tok tokens */
    uint32_t n_copy; /* blocks that are copied before anything is computed, in this order */
    const uint32_t *copy_from, *copy_to;
};

/* Opens a GGUF file. ERR_INVALID / ERR_CORRUPT / ERR_UNSUPPORTED name the tensor or key, what was
 * found and what is allowed. Blocks for the load. The gguf may be closed afterwards. */
MUST_USE int model_open(struct model **out, const struct gguf *file,
                        const struct model_options *options, struct err *e);
void model_close(struct model *m);
const struct model_info *model_get_info(const struct model *m);

/* fn(arg, i, thread) for each i below n, on the threads of the model's device, thread below
 * model_n_threads; returns when all are done. For host work between steps; not inside one. */
void model_each(struct model *m, uint32_t n, void (*fn)(void *arg, uint32_t i, uint32_t thread),
                void *arg);
uint32_t model_n_threads(const struct model *m);

/* Runs the batch; logits: [n_row, n_vocab] float32, caller's storage. ERR_DEVICE is sticky. */
MUST_USE int model_forward(struct model *m, const struct model_batch *batch, float *logits,
                           struct err *e);
/* Whether model_start may be called: the device draws tokens, and the whole row is on it. */
bool model_can_draw(const struct model *m);
/* As model_forward, but a token of each row where draw[r] (kernels/draw.h) asks for one and the
 * device has room for its penalties: then drawn[r].token >= 0 and the row's logits are not
 * written. [n_row] both. Returns when the device has its work: batch and draw may go, drawn and
 * logits are written by model_finish, which waits for the oldest that was started. Two at most are
 * under way, and no model_forward or model_each beside them. */
MUST_USE int model_start(struct model *m, const struct model_batch *batch,
                         const struct kern_draw *draw, struct kern_drawn *drawn, float *logits,
                         struct err *e);
MUST_USE int model_finish(struct model *m, struct err *e);
/* Whether starting a second step early gains something. */
bool model_can_overlap(const struct model *m);
/* On the other ranks: computes what rank 0 runs until it closes its model (ERR_OK) or the group
 * ends (ERR_DEVICE). */
MUST_USE int model_follow(struct model *m, struct err *e);
/* Time spent waiting for and talking to the other ranks, since open; 0 alone. Any thread. */
uint64_t model_comm_us(const struct model *m);
#endif
