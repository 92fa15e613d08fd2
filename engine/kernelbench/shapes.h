/* engine/kernelbench/shapes.h - the matrices of a GGUF file on a backend, by the role they play,
 * and one step of each role to time. One thread; everything is released by shapes_close. */
#ifndef ENGINE_KERNELBENCH_SHAPES_H
#define ENGINE_KERNELBENCH_SHAPES_H

#include "engine/model/gguf.h"
#include "kernels/ops.h"

enum { SHAPES_MAX_TOK = 512, SHAPES_MAX_SEQ = 32, SHAPES_MAX_CONTEXT = 1024 };

/* The ops of kernels/ops.h that a decoder layer is made of, and all of them in a row. */
enum role { ROLE_QKV, ROLE_OUTPUT, ROLE_GATE_UP, ROLE_DOWN, ROLE_HEAD, ROLE_ALL, ROLE_COUNT };

/* For one token, in multiply-adds of bytes: those of the model, those that the dot products of the
 * AVX-512 kernels execute for them, and those that would fit if each vector instruction were a dot
 * product. The last two are 0 where a matrix holds floats. */
struct work {
    double macs, dots, slots;
};

struct role_facts {
    const char *name, *types; /* "qkv", "Q4_1" or "Q4_1 Q8_0" */
    uint32_t rows, cols, n;   /* of one matrix (parts stacked), and how many */
    size_t bytes;             /* of all of them in the file */
    struct work work;
};

struct shapes;

struct shapes_options {
    const char *path, *backend, *instruction_set; /* NULL = default, best */
    uint32_t n_threads;                           /* 0 = usable cores */
};

/* ERR_INVALID / ERR_UNSUPPORTED: the file, or it is no decoder of the llama family. */
MUST_USE int shapes_open(struct shapes **out, const struct shapes_options *o, struct err *e);
void shapes_close(struct shapes *s);
uint32_t shapes_threads(const struct shapes *s);
uint32_t shapes_vocab(const struct shapes *s);
struct role_facts shapes_role(const struct shapes *s, enum role role);

/* Of a step of n_tok tokens; the head works for fewer rows than there are tokens. */
struct work shapes_work(const struct shapes *s, enum role role, uint32_t n_tok);
/* Rows of logits of a step of n_tok tokens: all while decoding, the last of a prompt. */
uint32_t shapes_head_rows(uint32_t n_tok);
/* n_passes steps as one: every matrix of the role, n_tok tokens; the head for
 * shapes_head_rows(n_tok). */
MUST_USE int shapes_run(struct shapes *s, enum role role, uint32_t n_tok, uint32_t n_passes,
                        struct err *e);

struct attention_case {
    uint32_t n_seq, context; /* earlier tokens of each */
    uint32_t n_new;          /* tokens of each in this step */
    uint32_t n_shared;       /* of the context, the same blocks for all */
};
/* Attention of every layer, once. n_seq * n_new <= SHAPES_MAX_TOK. */
MUST_USE int shapes_attend(struct shapes *s, const struct attention_case *a, struct err *e);
/* Bytes of K and V that have to be read once, and multiply-adds of it. */
void shapes_attention_cost(const struct shapes *s, const struct attention_case *a, size_t *bytes,
                           uint64_t *macs);

#endif
