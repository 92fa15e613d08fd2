/* bench_engine MODEL.gguf THREADS CASE... - tokens per second of the model without a server, one
 * JSON object a case, as llama-bench and llama-batched-bench measure theirs: no sampling, one
 * warm-up, wall clock. For tests/bench/vs_llama.sh.
 *
 *   decode:N_SEQ:CONTEXT:STEPS   N_SEQ sequences of CONTEXT earlier tokens each, STEPS steps
 *   shared:N_SEQ:CONTEXT:STEPS   the same, all with the very same CONTEXT tokens in the cache
 *   prefill:N                    one prompt of N tokens, logits of the last
 *   set:NAME                     instruction set for the cases after it; the model is opened anew
 */
#include "common/clock.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 64, MAX_TOK = 512, MAX_CONTEXT = 1024, SEQ_BLOCKS = MAX_CONTEXT / 16 };

struct bench {
    const char *path, *set;
    uint32_t n_threads, n_vocab;
    struct model *model;
    float *logits;
    uint32_t table[MAX_SEQ][SEQ_BLOCKS];
    const uint32_t *tables[MAX_SEQ];
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK], row[MAX_TOK];
};

static _Noreturn void die(const char *text)
{
    fprintf(stderr, "bench_engine: %s\n", text);
    exit(1);
}

static void open_model(struct bench *b)
{
    struct err e;
    struct gguf *file;
    const struct model_options o = {.n_threads = b->n_threads,
                                    .n_kv_blocks = MAX_SEQ * SEQ_BLOCKS,
                                    .max_batch_tokens = MAX_TOK,
                                    .max_batch_rows = MAX_SEQ,
                                    .instruction_set = b->set};
    model_close(b->model);
    if (gguf_open(&file, b->path, &e) != ERR_OK || model_open(&b->model, file, &o, &e) != ERR_OK)
        die(e.msg);
    gguf_close(file);
    free(b->logits);
    b->n_vocab = model_get_info(b->model)->n_vocab;
    b->logits = calloc((size_t)MAX_SEQ * b->n_vocab, sizeof *b->logits);
    if (b->logits == NULL)
        die("no memory for logits");
}

static void forward(struct bench *b, uint32_t n_tok, uint32_t n_row)
{
    struct err e;
    const struct model_batch m = {.n_tok = n_tok,
                                  .token = b->token,
                                  .position = b->position,
                                  .seq = b->seq,
                                  .block_table = b->tables,
                                  .n_row = n_row,
                                  .row_token = b->row};
    if (model_forward(b->model, &m, b->logits, &e) != ERR_OK)
        die(e.msg);
}

/* Own blocks for every sequence; with is_shared the first `context` tokens are those of the first
 * one, up to the last whole block. */
static void fill_tables(struct bench *b, uint32_t context, bool is_shared)
{
    uint32_t n_shared = is_shared ? context / KV_BLOCK_TOKENS : 0;
    for (uint32_t s = 0; s < MAX_SEQ; s++) {
        b->tables[s] = b->table[s];
        for (uint32_t i = 0; i < SEQ_BLOCKS; i++)
            b->table[s][i] = (i < n_shared ? 0 : s) * SEQ_BLOCKS + i;
    }
}

static void decode_step(struct bench *b, uint32_t n_seq, uint32_t position)
{
    for (uint32_t i = 0; i < n_seq; i++) {
        b->token[i] = (int32_t)((300 + position * 31 + i * 7) % b->n_vocab);
        b->position[i] = position;
        b->seq[i] = i;
        b->row[i] = i;
    }
    forward(b, n_seq, n_seq);
}

static void prefill_chunk(struct bench *b, uint32_t seq, uint32_t from, uint32_t n, uint32_t n_row)
{
    for (uint32_t i = 0; i < n; i++) {
        b->token[i] = (int32_t)((300 + (from + i) * 7919) % b->n_vocab);
        b->position[i] = from + i;
        b->seq[i] = seq;
    }
    b->row[0] = n - 1;
    forward(b, n, n_row);
}

static double seconds_since(struct mono from)
{
    return (double)mono_since_us(from, clock_mono(&CLOCK_REAL)) / 1e6;
}

static double run_decode(struct bench *b, uint32_t n_seq, uint32_t context, uint32_t steps,
                         bool is_shared)
{
    fill_tables(b, context, is_shared);
    for (uint32_t s = 0; s < n_seq && context > 0; s++)
        prefill_chunk(b, s, 0, context, 0);
    decode_step(b, n_seq, context);
    struct mono from = clock_mono(&CLOCK_REAL);
    for (uint32_t s = 0; s < steps; s++)
        decode_step(b, n_seq, context + s);
    return steps * n_seq / seconds_since(from);
}

static double run_prefill(struct bench *b, uint32_t n)
{
    fill_tables(b, 0, false);
    prefill_chunk(b, 0, 0, n, 1);
    struct mono from = clock_mono(&CLOCK_REAL);
    prefill_chunk(b, 0, 0, n, 1);
    return n / seconds_since(from);
}

/* Numbers after the colons, at most three. */
static void read_numbers(const char *text, uint32_t number[3])
{
    for (int i = 0; i < 3 && (text = strchr(text, ':')) != NULL; i++, text++)
        number[i] = (uint32_t)strtoul(text + 1, NULL, 10);
}

static void run_case(struct bench *b, const char *text)
{
    uint32_t n[3] = {0};
    bool is_shared = strncmp(text, "shared:", 7) == 0;
    double rate;

    read_numbers(text, n);
    if (strncmp(text, "set:", 4) == 0) {
        b->set = text + 4;
        open_model(b);
        return;
    }
    if (strncmp(text, "prefill:", 8) == 0 && n[0] >= 1 && n[0] <= MAX_TOK)
        rate = run_prefill(b, n[0]);
    else if ((is_shared || strncmp(text, "decode:", 7) == 0) && n[0] >= 1 && n[0] <= MAX_SEQ &&
             n[1] <= MAX_TOK && n[2] >= 1 && n[1] + n[2] < MAX_CONTEXT)
        rate = run_decode(b, n[0], n[1], n[2], is_shared);
    else
        die("a case is decode:N_SEQ:CONTEXT:STEPS, shared:..., prefill:N or set:NAME");
    printf("{\"case\":\"%s\",\"tok_s\":%.3f}\n", text, rate);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bench b;

    if (argc < 4) {
        fputs("usage: bench_engine MODEL.gguf THREADS CASE...\n", stderr);
        return 2;
    }
    b.path = argv[1];
    b.n_threads = (uint32_t)strtoul(argv[2], NULL, 10);
    open_model(&b);
    printf("{\"case\":\"load\",\"weight_bytes\":%zu}\n", model_get_info(b.model)->weight_bytes);
    for (int i = 3; i < argc; i++)
        run_case(&b, argv[i]);
    model_close(b.model);
    free(b.logits);
    return 0;
}
