/* Shapes as published in the models' config.json; the file is written field by field (docs/gguf.md
 * of the ggml repository, version 3). Offsets of tensors may overlap: nothing forbids it. */
#include "tests/gpu/bench/synth.h"

#include "common/buf.h"
#include "common/rng.h"
#include "engine/model/gguf.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 256, PATTERN_ELEMENTS = 1 << 20 };

static const struct synth_shape SHAPES[] = {
    /* Llama-3.2-1B */
    {"synth-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 0, 0, false},
    /* Llama-3.1-8B */
    {"synth-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, true},
    /* Qwen3-30B-A3B */
    {"synth-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, 128, 8, true},
    /* for tests without a device */
    {"synth-tiny", "llama", 2, 256, 4, 2, 64, 512, 384, 0, 0, false},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };

const struct synth_shape *synth_find(const char *name)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcmp(SHAPES[i].name, name) == 0)
            return &SHAPES[i];
    return NULL;
}

const char *synth_names(void)
{
    return "synth-1b, synth-8b, synth-30b-a3b, synth-tiny";
}

bool synth_dtype(const char *name, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t dtype;
    } TYPES[] = {{"bf16", DTYPE_BF16}, {"f16", DTYPE_F16},   {"q8_0", DTYPE_Q8_0},
                 {"q4_0", DTYPE_Q4_0}, {"q4_1", DTYPE_Q4_1}, {"q4_k", DTYPE_Q4_K},
                 {"q6_k", DTYPE_Q6_K}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(TYPES[i].name, name) == 0) {
            *out = TYPES[i].dtype;
            return true;
        }
    }
    return false;
}

static double expert_weights(const struct synth_shape *s)
{
    return 3.0 * s->d_ff * s->d_model;
}

/* Of a layer, but for its experts or feed-forward part. */
static double attention_weights(const struct synth_shape *s)
{
    double q = (double)s->n_head * s->d_head, kv = (double)s->n_head_kv * s->d_head;
    return s->d_model * (2 * q + 2 * kv);
}

static double weights_with(const struct synth_shape *s, double n_experts)
{
    double layer = attention_weights(s) + expert_weights(s) * n_experts;
    return s->n_layer * layer + (double)s->n_vocab * s->d_model;
}

/* n tokens with k of m experts each touch m (1 - (1 - k/m)^n) of them, if they choose at random. */
double synth_step_weights(const struct synth_shape *s, uint32_t n_tok)
{
    double m = s->n_expert, k = s->n_expert_used;
    return weights_with(s, s->n_expert ? m * (1 - pow(1 - k / m, n_tok)) : 1);
}

double synth_token_macs(const struct synth_shape *s)
{
    return weights_with(s, s->n_expert ? s->n_expert_used : 1);
}

static void put_u32(struct buf *b, uint32_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_put(b, &v, sizeof v);
}

static void put_text(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    buf_put_c(b, s);
}

static void put_key(struct buf *b, const char *architecture, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    put_text(b, architecture[0] ? key : name);
}

/* Where the data of a kind of tensor starts. */
struct regions {
    uint64_t matrices, ones, router, bytes;
};

struct writer {
    struct buf head;
    const struct synth_shape *shape;
    struct regions at;
    uint32_t dtype;
    uint64_t n_tensors;
    size_t largest; /* bytes of a matrix */
};

static size_t matrix_bytes(uint32_t dtype, uint64_t n)
{
    uint32_t elements = 1;
    size_t bytes = 0;
    (void)dtype_layout(dtype, &elements, &bytes);
    return n / elements * bytes;
}

static void put_tensor(struct writer *w, const char *name, uint32_t dtype, uint64_t rows,
                       uint64_t cols, uint64_t planes, uint64_t offset)
{
    uint32_t n_dims = planes ? 3 : rows ? 2 : 1;
    put_text(&w->head, name);
    put_u32(&w->head, n_dims);
    put_u64(&w->head, cols);
    if (n_dims > 1)
        put_u64(&w->head, rows);
    if (n_dims > 2)
        put_u64(&w->head, planes);
    put_u32(&w->head, dtype);
    put_u64(&w->head, offset);
    w->n_tensors++;
}

static void put_matrix(struct writer *w, const char *name, uint64_t rows, uint64_t cols,
                       uint64_t planes)
{
    size_t bytes = matrix_bytes(w->dtype, rows * cols * (planes ? planes : 1));
    w->largest = bytes > w->largest ? bytes : w->largest;
    put_tensor(w, name, w->dtype, rows, cols, planes, w->at.matrices);
}

static void put_vector(struct writer *w, const char *name, uint64_t n)
{
    put_tensor(w, name, DTYPE_F32, 0, n, 0, w->at.ones);
}

static void put_layer(struct writer *w, uint32_t i)
{
    const struct synth_shape *s = w->shape;
    uint64_t d = s->d_model, q = (uint64_t)s->n_head * s->d_head,
             kv = (uint64_t)s->n_head_kv * s->d_head;
    char name[64];
#define NAMED(text) (snprintf(name, sizeof name, "blk.%u." text ".weight", i), name)
    put_vector(w, NAMED("attn_norm"), d);
    put_vector(w, NAMED("ffn_norm"), d);
    put_matrix(w, NAMED("attn_q"), q, d, 0);
    put_matrix(w, NAMED("attn_k"), kv, d, 0);
    put_matrix(w, NAMED("attn_v"), kv, d, 0);
    put_matrix(w, NAMED("attn_output"), d, q, 0);
    if (!s->n_expert) {
        put_matrix(w, NAMED("ffn_gate"), s->d_ff, d, 0);
        put_matrix(w, NAMED("ffn_up"), s->d_ff, d, 0);
        put_matrix(w, NAMED("ffn_down"), d, s->d_ff, 0);
        return;
    }
    put_vector(w, NAMED("attn_q_norm"), s->d_head);
    put_vector(w, NAMED("attn_k_norm"), s->d_head);
    put_tensor(w, NAMED("ffn_gate_inp"), DTYPE_F32, s->n_expert, d, 0, w->at.router);
    put_matrix(w, NAMED("ffn_gate_exps"), s->d_ff, d, s->n_expert);
    put_matrix(w, NAMED("ffn_up_exps"), s->d_ff, d, s->n_expert);
    put_matrix(w, NAMED("ffn_down_exps"), d, s->d_ff, s->n_expert);
#undef NAMED
}

static void put_tensors(struct writer *w)
{
    const struct synth_shape *s = w->shape;
    put_matrix(w, "token_embd.weight", s->n_vocab, s->d_model, 0);
    if (s->has_own_head)
        put_matrix(w, "output.weight", s->n_vocab, s->d_model, 0);
    put_vector(w, "output_norm.weight", s->d_model);
    for (uint32_t i = 0; i < s->n_layer; i++)
        put_layer(w, i);
}

static uint64_t put_metadata(struct buf *b, const struct synth_shape *s, uint32_t n_ctx)
{
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"block_count", s->n_layer},
                   {"context_length", n_ctx},
                   {"embedding_length", s->d_model},
                   {"feed_forward_length", s->d_ff},
                   {"attention.head_count", s->n_head},
                   {"attention.head_count_kv", s->n_head_kv},
                   {"attention.key_length", s->d_head},
                   {"expert_count", s->n_expert},
                   {"expert_used_count", s->n_expert_used},
                   {"expert_feed_forward_length", s->n_expert ? s->d_ff : 0}};
    const float eps = 1e-5f, base = 500000;
    uint64_t n = 4;
    put_text(b, "general.architecture"), put_u32(b, GGUF_STRING), put_text(b, s->architecture);
    put_text(b, "general.alignment"), put_u32(b, GGUF_U32), put_u32(b, ALIGNMENT);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value) {
            put_key(b, s->architecture, numbers[i].name), put_u32(b, GGUF_U32);
            put_u32(b, numbers[i].value);
            n++;
        }
    }
    put_key(b, s->architecture, "rope.freq_base"), put_u32(b, GGUF_F32);
    buf_put(b, &base, sizeof base);
    put_key(b, s->architecture, "attention.layer_norm_rms_epsilon"), put_u32(b, GGUF_F32);
    buf_put(b, &eps, sizeof eps);
    return n;
}

/* The header with tensors at w->at; twice, as the regions follow from the first time's sizes. */
static void write_head(struct writer *w, uint32_t n_ctx)
{
    size_t counts = 8;
    buf_reset(&w->head);
    w->n_tensors = 0;
    buf_put(&w->head, "GGUF", 4);
    put_u32(&w->head, 3);
    put_u64(&w->head, 0);
    put_u64(&w->head, 0);
    uint64_t n_keys = put_metadata(&w->head, w->shape, n_ctx);
    put_tensors(w);
    if (w->head.failed)
        return;
    memcpy(w->head.p + counts, &w->n_tensors, sizeof w->n_tensors);
    memcpy(w->head.p + counts + sizeof w->n_tensors, &n_keys, sizeof n_keys);
    while (w->head.n % ALIGNMENT)
        buf_put_char(&w->head, 0);
}

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void place_regions(struct writer *w)
{
    const struct synth_shape *s = w->shape;
    w->at.matrices = 0;
    w->at.ones = aligned(w->largest);
    w->at.router = aligned(w->at.ones + (size_t)s->d_model * sizeof(float));
    w->at.bytes = w->at.router + aligned((size_t)s->n_expert * s->d_model * sizeof(float));
}

/* Random blocks again and again, up to `bytes`. */
static void repeat(char *to, size_t bytes, const struct buf *pattern)
{
    for (size_t at = 0; at < bytes; at += pattern->n)
        memcpy(to + at, pattern->p, bytes - at < pattern->n ? bytes - at : pattern->n);
}

static int fill(const struct writer *w, char *data, struct err *e)
{
    const struct synth_shape *s = w->shape;
    struct buf pattern;
    struct rng r;
    rng_seed(&r, 1);
    buf_init(&pattern, 16 * MiB);
    tiny_random_blocks(&r, w->dtype, PATTERN_ELEMENTS, 1.2 / sqrt(s->d_model), &pattern);
    int rc = buf_check(&pattern, "weights", e);
    if (rc == ERR_OK)
        repeat(data + w->at.matrices, w->largest, &pattern);
    float *ones = (float *)(void *)(data + w->at.ones),
          *router = (float *)(void *)(data + w->at.router);
    for (uint32_t i = 0; i < s->d_model; i++)
        ones[i] = 1;
    for (size_t i = 0; i < (size_t)s->n_expert * s->d_model; i++)
        router[i] = (float)(rng_normal(&r) * 0.1);
    buf_free(&pattern);
    return rc;
}

static int write_file(const struct writer *w, int fd, struct err *e)
{
    size_t bytes = w->head.n + w->at.bytes;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return err_set_sys(e, ERR_NOMEM, errno, "synth: %zu bytes of memory", bytes);
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return err_set_sys(e, ERR_NOMEM, errno, "synth: %zu bytes of memory", bytes);
    memcpy(p, w->head.p, w->head.n);
    int rc = fill(w, p + w->head.n, e);
    munmap(p, bytes);
    return rc;
}

int synth_make(const struct synth_shape *s, uint32_t dtype, uint32_t n_ctx, int *fd,
               char path[SYNTH_PATH_BYTES], struct err *e)
{
    struct writer w = {.shape = s, .dtype = dtype};
    buf_init(&w.head, 16 * MiB);
    write_head(&w, n_ctx);
    place_regions(&w);
    write_head(&w, n_ctx);
    int rc = buf_check(&w.head, "header", e);
    *fd = memfd_create("synth", 0);
    if (rc == ERR_OK)
        rc = write_file(&w, *fd, e);
    snprintf(path, SYNTH_PATH_BYTES, "/proc/self/fd/%d", *fd);
    buf_free(&w.head);
    return rc;
}
