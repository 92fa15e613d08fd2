/* Whole steps through the engine's model code: what a request's token costs on the device, without
 * scheduler and HTTP. Medians of single steps by the wall clock, as the engine would wait for them.
 */
#include "tests/gpu/bench/bench.h"

#include "common/clock.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/draw.h"
#include "kernels/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 24, WARM_UP = 4, MAX_CHUNK = 2048, FILL_US = 8000000 };

struct run {
    const struct bench_options *o;
    struct model *model;
    uint32_t max_seq, seq_blocks, chunk;
    int32_t *token; /* [chunk] */
    uint32_t *position, *seq, *row, *table;
    const uint32_t **tables;
    float *logits;          /* [max_seq][n_vocab] */
    struct kern_draw *draw; /* [max_seq] */
    struct kern_drawn *drawn;
};

static double now_us(void)
{
    return (double)clock_mono(&CLOCK_REAL).us;
}

static uint32_t blocks_of(uint32_t context)
{
    return (context + STEPS + WARM_UP) / KV_BLOCK_TOKENS + 1;
}

/* Sequences, their blocks and all blocks, the most of any measurement. */
static void size_up(struct run *r, uint32_t *n_blocks)
{
    const struct bench_options *o = r->o;
    r->max_seq = 1;
    *n_blocks = r->seq_blocks = o->prompt / KV_BLOCK_TOKENS + 1;
    for (uint32_t i = 0; i < o->n_batch; i++) {
        uint32_t of_seq = blocks_of(o->context[i]), all = of_seq * o->batch[i];
        r->max_seq = o->batch[i] > r->max_seq ? o->batch[i] : r->max_seq;
        r->seq_blocks = of_seq > r->seq_blocks ? of_seq : r->seq_blocks;
        *n_blocks = all > *n_blocks ? all : *n_blocks;
    }
    r->chunk = o->is_small ? 64 : MAX_CHUNK;
    r->chunk = r->chunk > r->max_seq ? r->chunk : r->max_seq;
}

static int open_model(struct run *r, struct err *e)
{
    const struct bench_options *o = r->o;
    char path[SYNTH_PATH_BYTES];
    struct gguf *file;
    uint32_t n_blocks;
    int fd = -1, rc;
    size_up(r, &n_blocks);
    const struct model_options options = {.backend = o->backend,
                                          .has_fp8_weights = o->is_fp8,
                                          .has_library_gemm = o->has_library_gemm,
                                          .n_kv_blocks = n_blocks,
                                          .max_batch_tokens = r->chunk,
                                          .max_batch_rows = r->max_seq};
    TRY(synth_make(o->shape, o->dtype, r->seq_blocks * KV_BLOCK_TOKENS, &fd, path, e));
    TRY(gguf_open(&file, path, e));
    rc = model_open(&r->model, file, &options, e);
    gguf_close(file);
out:
    if (fd >= 0)
        close(fd);
    return rc;
}

static int open_arrays(struct run *r, struct err *e)
{
    uint32_t n = r->chunk, seqs = r->max_seq;
    r->token = calloc(n, sizeof *r->token);
    r->position = calloc(n, sizeof *r->position);
    r->seq = calloc(n, sizeof *r->seq);
    r->row = calloc(n, sizeof *r->row);
    r->table = calloc((size_t)seqs * r->seq_blocks, sizeof *r->table);
    r->tables = calloc(seqs, sizeof *r->tables);
    r->logits = calloc((size_t)seqs * r->o->shape->n_vocab, sizeof *r->logits);
    r->draw = calloc(seqs, sizeof *r->draw);
    r->drawn = calloc(seqs, sizeof *r->drawn);
    if (!r->token || !r->position || !r->seq || !r->row || !r->table || !r->tables || !r->logits ||
        !r->draw || !r->drawn)
        return err_set(e, ERR_NOMEM, "bench: arrays of %u sequences", seqs);
    for (uint32_t i = 0; i < seqs; i++)
        r->draw[i] = (struct kern_draw){
            .scale = 1 / 0.8f, .repetition = 1, .top_p = 1, .u = (i + 0.5) / seqs};
    return ERR_OK;
}

/* Blocks of neighbouring sequences lie apart, as after hours of serving. */
static void place(struct run *r, uint32_t n_seq, uint32_t of_seq)
{
    for (uint32_t s = 0; s < n_seq; s++) {
        r->tables[s] = r->table + (size_t)s * r->seq_blocks;
        for (uint32_t b = 0; b < of_seq; b++)
            r->table[(size_t)s * r->seq_blocks + b] = b * n_seq + s;
    }
}

/* n_row tokens are drawn, at temperature 0.8, where the device can; else their logits come. */
static int step(struct run *r, uint32_t n_tok, uint32_t n_row, double *us, struct err *e)
{
    const struct model_batch b = {.n_tok = n_tok,
                                  .token = r->token,
                                  .position = r->position,
                                  .seq = r->seq,
                                  .block_table = r->tables,
                                  .n_row = n_row,
                                  .row_token = r->row};
    double from = now_us();
    int rc = model_can_draw(r->model) && n_row
                 ? model_start(r->model, &b, r->draw, r->drawn, r->logits, e)
                 : model_forward(r->model, &b, r->logits, e);
    if (rc == ERR_OK && model_can_draw(r->model) && n_row)
        rc = model_finish(r->model, e);
    *us = now_us() - from;
    return rc;
}

/* n tokens of sequence s from position p. */
static void put_tokens(struct run *r, uint32_t s, uint32_t p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        r->token[i] = (int32_t)((p + i) * 7919u % r->o->shape->n_vocab);
        r->position[i] = p + i;
        r->seq[i] = s;
    }
    r->row[0] = n - 1;
}

/* The cache up to the context, sequence by sequence, for FILL_US at most: the rest keeps what the
 * memory held, which takes as long to read. */
static int fill_context(struct run *r, uint32_t n_seq, uint32_t context, struct err *e)
{
    double us, from = now_us();
    int rc = ERR_OK;
    for (uint32_t s = 0; s < n_seq && now_us() - from < FILL_US; s++) {
        for (uint32_t p = 0; p < context && rc == ERR_OK; p += r->chunk) {
            uint32_t left = context - p, n = left < r->chunk ? left : r->chunk;
            put_tokens(r, s, p, n);
            rc = step(r, n, 0, &us, e);
        }
    }
    return rc;
}

static double weight_bytes(const struct bench_options *o)
{
    uint32_t elements = 1;
    size_t bytes = 0;
    (void)dtype_layout(o->dtype, &elements, &bytes);
    return o->is_fp8 ? 1 : (double)bytes / elements;
}

/* Of one sequence's cache: keys and values in two bytes each. */
static double kv_bytes(const struct synth_shape *s, double positions)
{
    return positions * 2 * 2 * s->n_layer * s->n_head_kv * s->d_head;
}

static double attention_flops(const struct synth_shape *s, double positions)
{
    return positions * 4 * s->n_layer * s->n_head * s->d_head;
}

static int decode(struct run *r, uint32_t n_seq, uint32_t context, struct rows *rows, struct err *e)
{
    const struct bench_options *o = r->o;
    double us[STEPS], took;
    int rc;
    place(r, n_seq, blocks_of(context));
    TRY(fill_context(r, n_seq, context, e));
    for (uint32_t i = 0; i < STEPS + WARM_UP; i++) {
        for (uint32_t s = 0; s < n_seq; s++) {
            r->token[s] = (int32_t)((i * 31 + s * 7) % o->shape->n_vocab);
            r->position[s] = context + i;
            r->seq[s] = r->row[s] = s;
        }
        TRY(step(r, n_seq, n_seq, &took, e));
        if (i >= WARM_UP)
            us[i - WARM_UP] = took;
    }
    struct row row = {.us = rows_median(us, STEPS)};
    double seen = context + (STEPS + WARM_UP) / 2.0;
    snprintf(row.name, sizeof row.name, "decode %s %s batch %u context %u", o->shape->name,
             o->dtype_name, n_seq, context);
    row.bytes =
        synth_step_weights(o->shape, n_seq) * weight_bytes(o) + n_seq * kv_bytes(o->shape, seen);
    row.flops = n_seq * (2 * synth_token_macs(o->shape) + attention_flops(o->shape, seen));
    row.tok_s = n_seq * 1e6 / row.us;
    rows_add(rows, &row);
out:
    return rc;
}

static int prefill(struct run *r, struct rows *rows, struct err *e)
{
    const struct bench_options *o = r->o;
    double total = 0, best = 0, took;
    int rc = ERR_OK;
    place(r, 1, r->seq_blocks);
    for (int round = 0; round < 3; round++, total = 0) {
        for (uint32_t p = 0, n; p < o->prompt; p += n, total += took) {
            n = o->prompt - p < r->chunk ? o->prompt - p : r->chunk;
            put_tokens(r, 0, p, n);
            TRY(step(r, n, p + n == o->prompt, &took, e));
        }
        best = round == 0 || total < best ? total : best;
    }
    struct row row = {.us = best, .tok_s = o->prompt * 1e6 / best};
    double pairs = (double)o->prompt * (o->prompt + 1) / 2;
    snprintf(row.name, sizeof row.name, "prefill %s %s %u tokens%s", o->shape->name, o->dtype_name,
             o->prompt, o->has_library_gemm ? " by cublaslt" : "");
    row.bytes = synth_step_weights(o->shape, o->prompt) * weight_bytes(o);
    double head = (double)o->shape->n_vocab * o->shape->d_model; /* of the last token only */
    row.flops = 2 * (o->prompt * (synth_token_macs(o->shape) - head) + head) +
                attention_flops(o->shape, pairs);
    rows_add(rows, &row);
out:
    return rc;
}

int bench_model(const struct bench_options *o, struct rows *rows, struct err *e)
{
    struct run r = {.o = o};
    int rc;
    double from = now_us();
    TRY(open_model(&r, e));
    TRY(open_arrays(&r, e));
    printf("%s %s: loaded in %.1f s, %.2f GB\n", o->shape->name, o->dtype_name,
           (now_us() - from) / 1e6, (double)model_get_info(r.model)->weight_bytes / 1e9);
    for (uint32_t i = 0; i < o->n_batch; i++)
        TRY(decode(&r, o->batch[i], o->context[i], rows, e));
    if (o->prompt)
        TRY(prefill(&r, rows, e));
out:
    model_close(r.model);
    free(r.token), free(r.position), free(r.seq), free(r.row);
    free(r.table), free((void *)r.tables), free(r.logits), free(r.draw), free(r.drawn);
    return rc;
}
