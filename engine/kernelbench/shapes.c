/* The tensors are those of a llama-like file; the steps call kernels/ops.h as
 * engine/model/decoder.c does, a role at a time. Values do not matter for speed; activations are
 * small random numbers. */
#include "engine/kernelbench/shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 512, SEQ_BLOCKS = SHAPES_MAX_CONTEXT / KERN_BLOCK_TOKENS, TYPES_BYTES = 64 };

struct shapes {
    const struct kern_ops *ops;
    struct kern_device *device;
    struct gguf *file;
    uint32_t n_layer, n_head, n_head_kv, d_head, d_model, d_ff, n_vocab;
    const struct kern_matrix *matrix[ROLE_ALL][MAX_LAYERS];
    struct role_facts facts[ROLE_COUNT];
    char types[ROLE_COUNT][TYPES_BYTES];
    const struct kern_vector *norm_weight;
    struct kern_buffer *x, *qkv, *attended, *hidden;
    struct kern_kv *kv;
    double *inv_freq;
    struct kern_attn_shape attention;
    float *logits, *values;
    /* the step being run */
    enum role role;
    uint32_t n_passes;
    uint32_t n_tok, row[SHAPES_MAX_TOK], position[SHAPES_MAX_TOK], seq[SHAPES_MAX_TOK];
    int32_t token[SHAPES_MAX_TOK];
    uint32_t table[SHAPES_MAX_SEQ][SEQ_BLOCKS];
    const uint32_t *tables[SHAPES_MAX_TOK];
    struct kern_step step;
};

static const struct {
    const char *name;
    const char *part[KERN_MAX_PARTS]; /* with the layer's number */
} ROLES[ROLE_COUNT] = {
    [ROLE_QKV] = {"qkv", {"blk.%u.attn_q.weight", "blk.%u.attn_k.weight", "blk.%u.attn_v.weight"}},
    [ROLE_OUTPUT] = {"attention output", {"blk.%u.attn_output.weight"}},
    [ROLE_GATE_UP] = {"gate and up", {"blk.%u.ffn_gate.weight", "blk.%u.ffn_up.weight"}},
    [ROLE_DOWN] = {"down", {"blk.%u.ffn_down.weight"}},
    [ROLE_HEAD] = {"head", {"output.weight"}},
    [ROLE_ALL] = {"all matrices", {NULL}},
};

enum { NAME_BYTES = 64 };

static void put_name(char name[NAME_BYTES], const char *format, uint32_t layer)
{
    const char *hole = strstr(format, "%u");

    if (hole == NULL)
        snprintf(name, NAME_BYTES, "%s", format);
    else
        snprintf(name, NAME_BYTES, "%.*s%u%s", (int)(hole - format), format, layer, hole + 2);
}

static const struct gguf_tensor *find(const struct shapes *s, const char *format, uint32_t layer)
{
    char name[NAME_BYTES];
    put_name(name, format, layer);
    const struct gguf_tensor *t = gguf_find_tensor(s->file, name);
    if (t == NULL && strcmp(name, "output.weight") == 0)
        t = gguf_find_tensor(s->file, "token_embd.weight");
    return t;
}

static void note_type(struct shapes *s, enum role role, uint32_t type)
{
    const char *name = dtype_name(type);
    size_t n = strlen(s->types[role]);

    if (strstr(s->types[role], name) == NULL)
        snprintf(s->types[role] + n, TYPES_BYTES - n, "%s%s", n > 0 ? " " : "", name);
}

/* Vector instructions for 32 columns of 16 rows and a token, two of which start in a cycle: 8 dot
 * products of the model, 3 of second bytes, and what kernels/README.md ("What a product costs")
 * lists beside them. */
static const struct {
    uint32_t dtype;
    double slots;
} COSTS[] = {{DTYPE_Q4_1, 16}, {DTYPE_Q4_K, 16}, {DTYPE_Q5_1, 16}, {DTYPE_Q5_K, 16},
             {DTYPE_Q5_0, 16}, {DTYPE_Q4_0, 15}, {DTYPE_Q8_0, 15}, {DTYPE_Q6_K, 15}};
static const double MODEL_DOTS = 8, ALL_DOTS = 11;

static struct work work_of(const struct gguf_tensor *t)
{
    struct work w = {.macs = (double)t->dim[0] * (double)t->dim[1]};
    for (size_t i = 0; i < sizeof COSTS / sizeof *COSTS; i++)
        if (COSTS[i].dtype == t->type) {
            w.dots = w.macs * ALL_DOTS / MODEL_DOTS;
            w.slots = w.macs * COSTS[i].slots / MODEL_DOTS;
        }
    return w;
}

/* Times n; a part without the last two leaves the sum without them. */
static void add_work(struct work *sum, struct work w, double n)
{
    bool is_known = w.slots > 0 && (sum->slots > 0 || sum->macs <= 0);
    sum->macs += n * w.macs;
    sum->dots = is_known ? sum->dots + n * w.dots : 0;
    sum->slots = is_known ? sum->slots + n * w.slots : 0;
}

static int load_matrix(struct shapes *s, enum role role, uint32_t layer, struct err *e)
{
    struct kern_part part[KERN_MAX_PARTS];
    struct role_facts *f = &s->facts[role];
    uint32_t n = 0;
    char name[NAME_BYTES];

    f->rows = 0;
    for (; n < KERN_MAX_PARTS && ROLES[role].part[n] != NULL; n++) {
        const struct gguf_tensor *t = find(s, ROLES[role].part[n], layer);
        put_name(name, ROLES[role].part[n], layer);
        if (t == NULL || t->n_dim != 2 || t->dim[0] > UINT32_MAX || t->dim[1] > UINT32_MAX)
            return err_set(e, ERR_UNSUPPORTED,
                           "the file has no matrix %s; kernels are timed of models without "
                           "experts",
                           name);
        part[n] = (struct kern_part){t->type, (uint32_t)t->dim[1], t->data};
        f->cols = (uint32_t)t->dim[0];
        f->rows += part[n].rows;
        f->bytes += t->bytes;
        add_work(&f->work, work_of(t), 1);
        note_type(s, role, t->type);
    }
    f->n++;
    return s->ops->matrix(s->device, f->cols, part, n, &s->matrix[role][layer], e);
}

static int load_matrices(struct shapes *s, struct err *e)
{
    int rc = ERR_OK;

    for (uint32_t i = 0; i < s->n_layer && rc == ERR_OK; i++)
        for (enum role r = ROLE_QKV; r < ROLE_HEAD && rc == ERR_OK; r++)
            rc = load_matrix(s, r, i, e);
    if (rc == ERR_OK)
        rc = load_matrix(s, ROLE_HEAD, 0, e);
    for (enum role r = ROLE_QKV; r < ROLE_ALL; r++) {
        struct role_facts *f = &s->facts[r], *all = &s->facts[ROLE_ALL];
        f->name = ROLES[r].name;
        f->types = s->types[r];
        all->n += f->n;
        all->bytes += f->bytes;
        add_work(&all->work, f->work, 1);
    }
    s->facts[ROLE_ALL].name = ROLES[ROLE_ALL].name;
    s->facts[ROLE_ALL].types = "";
    return rc;
}

static int read_u32(const struct shapes *s, struct str arch, const char *key, uint32_t most,
                    uint32_t *out, struct err *e)
{
    char name[128];
    uint64_t v = 0;

    snprintf(name, sizeof name, STR_FMT ".%s", STR_ARG(arch), key);
    int rc = gguf_get_u64(s->file, name, &v, e);
    if (rc == ERR_OK && (v == 0 || v > most))
        rc = err_set(e, ERR_INVALID, "%s is %llu; 1 to %u is allowed", name, (unsigned long long)v,
                     most);
    *out = (uint32_t)v;
    return rc;
}

static int read_shape(struct shapes *s, struct err *e)
{
    struct str arch;
    int rc;

    TRY(gguf_get_str(s->file, "general.architecture", &arch, e));
    TRY(read_u32(s, arch, "block_count", MAX_LAYERS, &s->n_layer, e));
    TRY(read_u32(s, arch, "attention.head_count", 1024, &s->n_head, e));
    TRY(read_u32(s, arch, "embedding_length", 1 << 20, &s->d_model, e));
    TRY(read_u32(s, arch, "feed_forward_length", 1 << 24, &s->d_ff, e));
    if (read_u32(s, arch, "attention.head_count_kv", s->n_head, &s->n_head_kv, NULL) != ERR_OK)
        s->n_head_kv = s->n_head;
    if (read_u32(s, arch, "attention.key_length", 1024, &s->d_head, NULL) != ERR_OK)
        s->d_head = s->d_model / s->n_head;
    const struct gguf_tensor *embedding = gguf_find_tensor(s->file, "token_embd.weight");
    if (embedding == NULL || embedding->dim[1] > UINT32_MAX)
        rc = err_set(e, ERR_UNSUPPORTED, "the file has no token_embd.weight");
    else
        s->n_vocab = (uint32_t)embedding->dim[1];
out:
    return rc;
}

static int open_attention(struct shapes *s, struct err *e)
{
    s->inv_freq = calloc(s->d_head / 2 + 1, sizeof *s->inv_freq);
    if (s->inv_freq == NULL)
        return err_set(e, ERR_NOMEM, "rotations");
    for (uint32_t i = 0; i < s->d_head / 2; i++)
        s->inv_freq[i] = pow(10000.0, -2.0 * i / s->d_head);
    s->attention = (struct kern_attn_shape){.n_layer = s->n_layer,
                                            .n_head = s->n_head,
                                            .n_head_kv = s->n_head_kv,
                                            .d_head = s->d_head,
                                            .n_rot = s->d_head / 2 * 2,
                                            .n_rope = 1,
                                            .inv_freq = {s->inv_freq},
                                            .scale = 1 / sqrtf((float)s->d_head),
                                            .n_blocks = SHAPES_MAX_SEQ * SEQ_BLOCKS,
                                            .max_position = SHAPES_MAX_CONTEXT};
    return s->ops->kv(s->device, &s->attention, &s->kv, e);
}

static int open_buffers(struct shapes *s, struct err *e)
{
    uint32_t q = s->n_head * s->d_head, kv = s->n_head_kv * s->d_head;
    uint32_t widest = q + 2 * kv > s->d_ff ? q + 2 * kv : s->d_ff;
    int rc;

    TRY(s->ops->buffer(s->device, s->d_model, &s->x, e));
    TRY(s->ops->buffer(s->device, q + 2 * kv, &s->qkv, e));
    TRY(s->ops->buffer(s->device, q, &s->attended, e));
    TRY(s->ops->buffer(s->device, s->d_ff, &s->hidden, e));
    TRY(open_attention(s, e));
    s->logits = calloc((size_t)s->n_vocab * SHAPES_MAX_SEQ, sizeof *s->logits);
    s->values = malloc((size_t)widest * SHAPES_MAX_TOK * sizeof *s->values);
    if (s->logits == NULL || s->values == NULL)
        rc = err_set(e, ERR_NOMEM, "activations");
    for (size_t i = 0; rc == ERR_OK && i < (size_t)widest * SHAPES_MAX_TOK; i++)
        s->values[i] = (float)((i * 2654435761u) >> 8 & 0xFFFF) / 65536.0f - 0.5f;
    for (uint32_t i = 0; rc == ERR_OK && i < s->d_model; i++)
        s->logits[i] = 1;
    if (rc == ERR_OK)
        rc = s->ops->vector(s->device, s->logits, s->d_model, &s->norm_weight, e);
out:
    return rc;
}

static void fill_buffers(void *arg)
{
    struct shapes *s = arg;

    s->ops->begin(s->device, &s->step, s->kv);
    s->ops->write(s->device, s->x, s->values, SHAPES_MAX_TOK);
    s->ops->write(s->device, s->qkv, s->values, SHAPES_MAX_TOK);
    s->ops->write(s->device, s->attended, s->values, SHAPES_MAX_TOK);
    s->ops->write(s->device, s->hidden, s->values, SHAPES_MAX_TOK);
}

/* Own blocks for each sequence, the first n_shared tokens of all in those of the first. */
static void set_step(struct shapes *s, const struct attention_case *a)
{
    uint32_t shared = a->n_shared / KERN_BLOCK_TOKENS;

    for (uint32_t i = 0; i < SHAPES_MAX_SEQ; i++)
        for (uint32_t b = 0; b < SEQ_BLOCKS; b++)
            s->table[i][b] = (b < shared ? 0 : i) * SEQ_BLOCKS + b;
    s->n_tok = a->n_seq * a->n_new;
    for (uint32_t t = 0; t < s->n_tok; t++) {
        s->seq[t] = t / a->n_new;
        s->position[t] = a->context + t % a->n_new;
        s->token[t] = (int32_t)(t % s->n_vocab);
        s->row[t] = t;
    }
    for (uint32_t i = 0; i < SHAPES_MAX_SEQ; i++)
        s->tables[i] = s->table[i];
    s->step = (struct kern_step){s->n_tok, s->token, s->position, s->seq, s->tables};
}

int shapes_open(struct shapes **out, const struct shapes_options *o, struct err *e)
{
    struct shapes *s = calloc(1, sizeof *s);
    const struct kern_options options = {.n_threads = o->n_threads,
                                         .max_tok = SHAPES_MAX_TOK,
                                         .instruction_set = o->instruction_set};
    int rc;

    *out = NULL;
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "shapes");
    TRY(gguf_open(&s->file, o->path, e));
    TRY(read_shape(s, e));
    TRY(kern_find(o->backend, &s->ops, e));
    TRY(s->ops->open(&s->device, &options, e));
    TRY(load_matrices(s, e));
    TRY(open_buffers(s, e));
    set_step(s, &(struct attention_case){.n_seq = 1, .n_new = SHAPES_MAX_TOK});
    TRY(s->ops->run(s->device, fill_buffers, s, e));
    *out = s;
out:
    if (rc != ERR_OK)
        shapes_close(s);
    return rc;
}

void shapes_close(struct shapes *s)
{
    if (s == NULL)
        return;
    if (s->device != NULL)
        s->ops->close(s->device);
    gguf_close(s->file);
    free(s->inv_freq);
    free(s->logits);
    free(s->values);
    free(s);
}

uint32_t shapes_threads(const struct shapes *s)
{
    return s->ops->n_threads(s->device);
}

uint32_t shapes_vocab(const struct shapes *s)
{
    return s->n_vocab;
}

struct role_facts shapes_role(const struct shapes *s, enum role role)
{
    return s->facts[role];
}

uint32_t shapes_head_rows(uint32_t n_tok)
{
    return n_tok <= SHAPES_MAX_SEQ ? n_tok : 1;
}

struct work shapes_work(const struct shapes *s, enum role role, uint32_t n_tok)
{
    struct work sum = {0};

    for (enum role r = ROLE_QKV; r < ROLE_ALL; r++)
        if (role == ROLE_ALL || role == r)
            add_work(&sum, s->facts[r].work, r == ROLE_HEAD ? shapes_head_rows(n_tok) : n_tok);
    return sum;
}

static void run_matrix(struct shapes *s, enum role role, uint32_t layer)
{
    const struct kern_norm norm = {s->norm_weight, 1e-5f};
    const struct kern_matrix *w = s->matrix[role][layer];

    if (role == ROLE_QKV)
        s->ops->project(s->device, s->x, &norm, w, s->qkv);
    else if (role == ROLE_OUTPUT)
        s->ops->project_add(s->device, s->attended, w, s->x);
    else if (role == ROLE_GATE_UP)
        s->ops->gate_up(s->device, s->x, &norm, w, KERN_GATE_SILU, s->hidden);
    else if (role == ROLE_DOWN)
        s->ops->project_add(s->device, s->hidden, w, s->x);
    else
        s->ops->head(s->device, s->x, shapes_head_rows(s->n_tok), s->row, &norm, w, s->logits);
}

static void role_body(void *arg)
{
    struct shapes *s = arg;
    bool is_all = s->role == ROLE_ALL;

    s->ops->begin(s->device, &s->step, s->kv);
    for (uint32_t pass = 0; pass < s->n_passes; pass++) {
        for (uint32_t i = 0; i < s->n_layer && s->role != ROLE_HEAD; i++)
            for (enum role r = ROLE_QKV; r < ROLE_HEAD; r++)
                if (is_all || s->role == r)
                    run_matrix(s, r, i);
        if (is_all || s->role == ROLE_HEAD)
            run_matrix(s, ROLE_HEAD, 0);
    }
}

int shapes_run(struct shapes *s, enum role role, uint32_t n_tok, uint32_t n_passes, struct err *e)
{
    set_step(s, &(struct attention_case){.n_seq = 1, .n_new = n_tok});
    s->role = role;
    s->n_passes = n_passes;
    return s->ops->run(s->device, role_body, s, e);
}

static void attention_body(void *arg)
{
    struct shapes *s = arg;

    s->ops->begin(s->device, &s->step, s->kv);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const struct kern_attn_layer layer = {.index = i, .eps = 1e-5f};
        s->ops->attention(s->device, &layer, s->qkv, s->attended);
    }
}

int shapes_attend(struct shapes *s, const struct attention_case *a, struct err *e)
{
    set_step(s, a);
    return s->ops->run(s->device, attention_body, s, e);
}

void shapes_attention_cost(const struct shapes *s, const struct attention_case *a, size_t *bytes,
                           uint64_t *macs)
{
    uint64_t own = a->context - a->n_shared + a->n_new;
    uint64_t positions = a->n_shared + a->n_seq * own;
    /* token i of the new ones sees context + i + 1 positions */
    uint64_t pairs =
        a->n_seq * ((uint64_t)a->n_new * a->context + (uint64_t)a->n_new * (a->n_new + 1) / 2);

    *bytes = positions * s->ops->kv_block_bytes(&s->attention) / KERN_BLOCK_TOKENS;
    *macs = pairs * 2 * s->n_head * s->d_head * s->n_layer;
}
