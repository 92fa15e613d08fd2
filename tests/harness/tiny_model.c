/* A GGUF written field by field (docs/gguf.md of the ggml repository, version 3). Quantised tensors
 * are random bytes with sane scales, so that every bit of a block's layout is exercised. */
#include "tests/harness/tiny_model.h"

#include "common/io.h"
#include "common/rng.h"
#include "engine/model/gguf.h"
#include "kernels/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 32, MAX_FILE = 64 << 20 };

static const char *const SPECIALS[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
enum { N_SPECIALS = 3, N_BYTES = 256 };

/* Pairs to merge, in order of rank, in GPT-2's letters. */
#define SPACE "\xc4\xa0"
static const char *const MERGES[][2] = {{SPACE, "t"}, {"h", "e"},   {"i", "n"},  {SPACE "t", "he"},
                                        {"e", "r"},   {SPACE, "a"}, {"o", "n"},  {"r", "e"},
                                        {"in", "g"},  {"a", "n"},   {"an", "d"}, {SPACE "a", "nd"}};
enum { N_MERGES = sizeof MERGES / sizeof *MERGES };

/* Where a block keeps its scales: d about `scale` / spread, minimum field = ratio * d. */
static const struct scales {
    uint32_t dtype;
    int d_at, m_at; /* -1: none */
    double spread, ratio;
} SCALES[] = {
    {DTYPE_Q4_0, 0, -1, 4.6, 0},        {DTYPE_Q4_1, 0, 2, 4.6, -7.5},
    {DTYPE_Q5_0, 0, -1, 9.2, 0},        {DTYPE_Q5_1, 0, 2, 9.2, -15.5},
    {DTYPE_Q8_0, 0, -1, 74, 0},         {DTYPE_Q4_K, 0, 2, 4.6 * 36, 7.5},
    {DTYPE_Q5_K, 0, 2, 9.2 * 36, 15.5}, {DTYPE_Q6_K, 208, -1, 74 * 18, 0},
};

struct tensor {
    char name[48];
    uint32_t rows, cols, dtype; /* rows: of all planes */
    double scale;               /* 0: a norm, all ones */
    double mean;                /* added to every element, F32 only */
    uint32_t planes;            /* 0: two dimensions */
};

/* What an architecture has beside llama's tensors. */
enum { QKV_BIAS = 1, HEAD_NORMS = 2, POST_NORMS = 4, WINDOWS = 8, EXPERTS = 16 };
static const struct architecture {
    const char *name;
    unsigned has;
} ARCHITECTURES[] = {{"llama", 0},
                     {"qwen2", QKV_BIAS},
                     {"mixtral", EXPERTS},
                     {"qwen3", HEAD_NORMS},
                     {"qwen3moe", HEAD_NORMS | EXPERTS},
                     {"gemma3", HEAD_NORMS | POST_NORMS | WINDOWS}};

static const struct architecture *architecture_of(const struct tiny_model *t)
{
    for (size_t i = 0; i < sizeof ARCHITECTURES / sizeof *ARCHITECTURES; i++)
        if (strcmp(ARCHITECTURES[i].name, t->architecture) == 0)
            return &ARCHITECTURES[i];
    return NULL;
}

struct tiny_model tiny_model_default(void)
{
    return (struct tiny_model){.seed = 1,
                               .architecture = "llama",
                               .n_layer = 2,
                               .d_model = 64,
                               .n_head = 4,
                               .n_head_kv = 2,
                               .d_ff = 128,
                               .n_ctx = 2048,
                               .matrix_dtype = DTYPE_Q4_1,
                               .embedding_dtype = DTYPE_Q8_0};
}

struct tiny_model tiny_model_of(const char *architecture)
{
    struct tiny_model t = tiny_model_default();
    t.architecture = architecture;
    const struct architecture *a = architecture_of(&t);
    if (a && a->has & HEAD_NORMS)
        t.d_head = 32;
    if (a && a->has & WINDOWS) {
        t.n_layer = 4;
        t.window = 8;
        t.window_period = 3;
        t.matrix_dtype = DTYPE_Q5_0;
    }
    if (a && a->has & EXPERTS) {
        t.n_expert = 8;
        t.n_expert_used = 2;
    }
    if (a && strcmp(a->name, "mixtral") == 0)
        t.architecture = "llama"; /* as its files say */
    return t;
}

static void put_half(uint8_t *at, double v)
{
    uint16_t h = f32_to_f16((float)v);
    memcpy(at, &h, sizeof h);
}

static void random_real(struct rng *r, uint32_t dtype, double scale, uint8_t *out)
{
    float f = (float)(rng_normal(r) * scale);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t half = dtype == DTYPE_F16 ? f32_to_f16(f) : (uint16_t)(bits >> 16);
    if (dtype == DTYPE_F32)
        memcpy(out, &f, sizeof f);
    else
        memcpy(out, &half, sizeof half);
}

void tiny_random_blocks(struct rng *r, uint32_t dtype, size_t n, double scale, struct buf *out)
{
    uint32_t elements;
    size_t bytes;
    if (!dtype_layout(dtype, &elements, &bytes))
        return;
    const struct scales *s = NULL;
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++)
        if (SCALES[i].dtype == dtype)
            s = &SCALES[i];
    for (size_t b = 0; b < n / elements; b++) {
        uint8_t block[256];
        for (size_t i = 0; i < bytes; i++)
            block[i] = (uint8_t)rng_u64(r);
        if (s) {
            double d = scale / s->spread * (0.5 + rng_uniform(r));
            put_half(block + s->d_at, d);
            if (s->m_at >= 0)
                put_half(block + s->m_at, s->ratio * d);
        } else {
            random_real(r, dtype, scale, block);
        }
        buf_put(out, block, bytes);
    }
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

/* "ARCHITECTURE.name" in a buffer of the caller. */
enum { KEY_BYTES = 96 };
static const char *key_of(const struct tiny_model *t, const char *name, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", t->architecture, name);
    return out;
}

static void key_u32(struct buf *b, const char *key, uint32_t v)
{
    put_text(b, key), put_u32(b, GGUF_U32), put_u32(b, v);
}

static void key_f32(struct buf *b, const char *key, float v)
{
    put_text(b, key), put_u32(b, GGUF_F32), buf_put(b, &v, sizeof v);
}

static void key_text(struct buf *b, const char *key, const char *v)
{
    put_text(b, key), put_u32(b, GGUF_STRING), put_text(b, v);
}

static void key_array(struct buf *b, const char *key, enum gguf_type type, uint64_t n)
{
    put_text(b, key), put_u32(b, GGUF_ARRAY), put_u32(b, type), put_u64(b, n);
}

/* GPT-2's letter for a byte, as UTF-8: itself when printable, else the next one from U+0100 on. */
static void byte_letter(int byte, char out[3])
{
    unsigned next = 256, code = 0;
    for (int b = 0; b <= byte; b++) {
        bool is_printable = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
        code = is_printable ? (unsigned)b : next++;
    }
    memset(out, 0, 3);
    if (code < 128) {
        out[0] = (char)code;
    } else {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
    }
}

static void put_vocabulary(struct buf *b)
{
    key_text(b, "tokenizer.ggml.model", "gpt2");
    key_text(b, "tokenizer.ggml.pre", "smollm");
    key_array(b, "tokenizer.ggml.tokens", GGUF_STRING, N_SPECIALS + N_BYTES + N_MERGES);
    for (int i = 0; i < N_SPECIALS; i++)
        put_text(b, SPECIALS[i]);
    for (int i = 0; i < N_BYTES; i++) {
        char letter[3];
        byte_letter(i, letter);
        put_text(b, letter);
    }
    char text[64];
    for (int i = 0; i < N_MERGES; i++) {
        snprintf(text, sizeof text, "%s%s", MERGES[i][0], MERGES[i][1]);
        put_text(b, text);
    }
    key_array(b, "tokenizer.ggml.token_type", GGUF_I32, N_SPECIALS + N_BYTES + N_MERGES);
    for (int i = 0; i < N_SPECIALS + N_BYTES + N_MERGES; i++)
        put_u32(b, i < N_SPECIALS ? 3 : 1); /* control, normal */
    key_array(b, "tokenizer.ggml.merges", GGUF_STRING, N_MERGES);
    for (int i = 0; i < N_MERGES; i++) {
        snprintf(text, sizeof text, "%s %s", MERGES[i][0], MERGES[i][1]);
        put_text(b, text);
    }
    key_u32(b, "tokenizer.ggml.bos_token_id", 1);
    key_u32(b, "tokenizer.ggml.eos_token_id", 2);
    put_text(b, "tokenizer.ggml.add_bos_token"), put_u32(b, GGUF_BOOL), buf_put_char(b, 0);
    key_text(b, "tokenizer.chat_template",
             "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
             "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt "
             "%}{{ '<|im_start|>assistant\n' }}{% endif %}");
}

static uint64_t put_metadata(const struct tiny_model *t, struct buf *b)
{
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"block_count", t->n_layer},
                   {"context_length", t->n_ctx},
                   {"embedding_length", t->d_model},
                   {"feed_forward_length", t->d_ff},
                   {"attention.head_count", t->n_head},
                   {"attention.head_count_kv", t->n_head_kv},
                   {"attention.key_length", t->d_head},
                   {"expert_count", t->n_expert},
                   {"expert_used_count", t->n_expert_used},
                   {"expert_feed_forward_length", t->n_expert ? t->d_ff : 0},
                   {"attention.sliding_window", t->window},
                   {"attention.sliding_window_pattern", t->window_period}};
    char key[KEY_BYTES];
    uint64_t n = 3 + 2 + 9;
    key_text(b, "general.architecture", t->architecture);
    key_text(b, "general.name", "tiny");
    key_u32(b, "general.alignment", ALIGNMENT);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value == 0)
            continue;
        key_u32(b, key_of(t, numbers[i].name, key), numbers[i].value);
        n++;
    }
    key_f32(b, key_of(t, "rope.freq_base", key), t->window ? 200000.0f : 10000.0f);
    key_f32(b, key_of(t, "attention.layer_norm_rms_epsilon", key), 1e-5f);
    put_vocabulary(b);
    return n;
}

static struct tensor matrix(const struct tiny_model *t, const char *name, uint32_t rows,
                            uint32_t cols)
{
    struct tensor x = {.rows = rows, .cols = cols, .dtype = t->matrix_dtype};
    x.scale = 1.2 / sqrt(cols);
    snprintf(x.name, sizeof x.name, "%s.weight", name);
    return x;
}

static struct tensor expert_matrix(const struct tiny_model *t, const char *name, uint32_t rows,
                                   uint32_t cols)
{
    struct tensor x = matrix(t, name, rows * t->n_expert, cols);
    x.planes = t->n_expert;
    return x;
}

static uint32_t list_feed_forward(const struct tiny_model *t, struct tensor *out)
{
    uint32_t d = t->d_model, n = 0;
    if (t->n_expert == 0) {
        out[n++] = matrix(t, "ffn_gate", t->d_ff, d);
        out[n++] = matrix(t, "ffn_up", t->d_ff, d);
        out[n++] = matrix(t, "ffn_down", d, t->d_ff);
        return n;
    }
    out[n] = matrix(t, "ffn_gate_inp", t->n_expert, d);
    out[n++].dtype = DTYPE_F32;
    out[n++] = expert_matrix(t, "ffn_gate_exps", t->d_ff, d);
    out[n++] = expert_matrix(t, "ffn_up_exps", t->d_ff, d);
    out[n++] = expert_matrix(t, "ffn_down_exps", d, t->d_ff);
    return n;
}

/* All ones with scale 0. */
static struct tensor vector(const char *name, uint32_t n, double mean, double scale)
{
    struct tensor x = {.rows = 1, .cols = n, .dtype = DTYPE_F32, .scale = scale, .mean = mean};
    snprintf(x.name, sizeof x.name, "%s", name);
    return x;
}

static uint32_t list_layer(const struct tiny_model *t, uint32_t layer, struct tensor *out)
{
    unsigned has = architecture_of(t)->has;
    uint32_t d = t->d_model, d_head = t->d_head ? t->d_head : d / t->n_head, n = 0;
    uint32_t q = d_head * t->n_head, kv = d_head * t->n_head_kv;
    out[n++] = vector("attn_norm.weight", d, 1, 0);
    out[n++] = matrix(t, "attn_q", q, d);
    out[n++] = matrix(t, "attn_k", kv, d);
    out[n++] = matrix(t, "attn_v", kv, d);
    out[n++] = matrix(t, "attn_output", d, q);
    out[n++] = vector("ffn_norm.weight", d, 1, 0);
    n += list_feed_forward(t, out + n);
    if (has & QKV_BIAS) {
        out[n++] = vector("attn_q.bias", q, 0, 0.7);
        out[n++] = vector("attn_k.bias", kv, 0, 0.7);
        out[n++] = vector("attn_v.bias", kv, 0, 0.7);
    }
    if (has & HEAD_NORMS) {
        out[n++] = vector("attn_q_norm.weight", d_head, 1, 0.4);
        out[n++] = vector("attn_k_norm.weight", d_head, 1, 0.4);
    }
    if (has & POST_NORMS) {
        out[n++] = vector("post_attention_norm.weight", d, 1, 0.4);
        out[n++] = vector("post_ffw_norm.weight", d, 1, 0.4);
    }
    for (uint32_t i = 0; i < n; i++) {
        char name[sizeof out->name];
        snprintf(name, sizeof name, "blk.%u.%.30s", layer, out[i].name);
        memcpy(out[i].name, name, sizeof name);
    }
    return n;
}

static uint32_t list_tensors(const struct tiny_model *t, struct tensor *out)
{
    uint32_t n = 0, vocab = N_SPECIALS + N_BYTES + N_MERGES;
    out[n++] =
        (struct tensor){"token_embd.weight", vocab, t->d_model, t->embedding_dtype, 0.3, 0, 0};
    for (uint32_t i = 0; i < t->n_layer; i++)
        n += list_layer(t, i, out + n);
    out[n++] = (struct tensor){"output_norm.weight", 1, t->d_model, DTYPE_F32, 0, 0, 0};
    if (t->has_own_head)
        out[n++] =
            (struct tensor){"output.weight", vocab, t->d_model, t->embedding_dtype, 0.3, 0, 0};
    return n;
}

static size_t padded(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_tensor_info(struct buf *b, const struct tensor *t, size_t *offset)
{
    uint32_t elements = 1;
    size_t bytes = 4;
    (void)dtype_layout(t->dtype, &elements, &bytes);
    put_text(b, t->name);
    put_u32(b, t->planes ? 3 : t->rows > 1 ? 2 : 1);
    put_u64(b, t->cols);
    if (t->rows > 1)
        put_u64(b, t->planes ? t->rows / t->planes : t->rows);
    if (t->planes)
        put_u64(b, t->planes);
    put_u32(b, t->dtype);
    put_u64(b, *offset);
    *offset = padded(*offset + (size_t)t->rows * t->cols / elements * bytes);
}

static void put_tensor_data(struct buf *b, const struct tensor *t, struct rng *r)
{
    for (uint32_t i = 0; t->mean > 0 && t->scale > 0 && i < t->cols; i++) {
        float value = (float)(t->mean + t->scale * rng_normal(r));
        buf_put(b, &value, sizeof value);
    }
    if (t->scale > 0 && t->mean <= 0)
        tiny_random_blocks(r, t->dtype, (size_t)t->rows * t->cols, t->scale, b);
    for (uint32_t i = 0; t->scale <= 0 && i < t->cols; i++)
        buf_put(b, &(float){1.0f}, sizeof(float));
}

int tiny_model_make(const struct tiny_model *t, struct buf *out, struct err *e)
{
    enum { MAX_TENSORS = 256 };
    static const char zeros[ALIGNMENT] = {0};
    struct tensor tensors[MAX_TENSORS];
    struct rng r;
    size_t offset = 0;
    if (!architecture_of(t) || t->n_layer > (MAX_TENSORS - 3) / 14)
        return err_set(e, ERR_INVALID, "tiny model: %s of %u layers", t->architecture, t->n_layer);
    uint32_t n = list_tensors(t, tensors);
    struct buf metadata;
    buf_init(&metadata, MAX_FILE);
    uint64_t n_keys = put_metadata(t, &metadata);
    buf_put_c(out, "GGUF");
    put_u32(out, 3);
    put_u64(out, n);
    put_u64(out, n_keys);
    buf_put_str(out, buf_str(&metadata));
    for (uint32_t i = 0; i < n; i++)
        put_tensor_info(out, &tensors[i], &offset);
    rng_seed(&r, t->seed);
    for (uint32_t i = 0; i < n; i++) {
        buf_put(out, zeros, padded(out->n) - out->n);
        put_tensor_data(out, &tensors[i], &r);
    }
    buf_free(&metadata);
    return buf_check(out, "a tiny model", e);
}

int tiny_model_write(const struct tiny_model *t, const char *path, struct err *e)
{
    struct buf b;
    buf_init(&b, MAX_FILE);
    int rc = tiny_model_make(t, &b, e);
    if (rc == ERR_OK)
        rc = io_write_file(path, buf_str(&b), e);
    buf_free(&b);
    return rc;
}
