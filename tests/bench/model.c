/* bench_model MODEL.gguf [BACKEND] [THREADS] - tokens per second of the model alone: decode at
 * several batch sizes and context lengths, prefill of several lengths. Prints median and spread of
 * ROUNDS rounds, by the wall clock and by processor time of all threads. Not a test: numbers of a
 * shared machine say nothing about correctness. */
#include "common/clock.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5, MAX_SEQ = 32, SEQ_BLOCKS = 40, MAX_TOK = 512 };

struct bench {
    struct model *model;
    float *logits;
    uint32_t table[MAX_SEQ][SEQ_BLOCKS];
    const uint32_t *tables[MAX_SEQ];
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK], row[MAX_TOK];
};

static void run(struct bench *b, uint32_t n_tok, uint32_t n_row)
{
    struct err e;
    const struct model_batch m = {.n_tok = n_tok,
                                  .token = b->token,
                                  .position = b->position,
                                  .seq = b->seq,
                                  .block_table = b->tables,
                                  .n_row = n_row,
                                  .row_token = b->row};
    if (model_forward(b->model, &m, b->logits, &e) != ERR_OK) {
        fprintf(stderr, "bench_model: %s\n", e.msg);
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of all threads: what other processes take from the cores does not count. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct rates {
    double wall[ROUNDS], cpu[ROUNDS];
};

static void print(const char *what, uint32_t n, uint32_t context, struct rates *r)
{
    qsort(r->wall, ROUNDS, sizeof *r->wall, by_size);
    qsort(r->cpu, ROUNDS, sizeof *r->cpu, by_size);
    printf("%-8s %4u tokens, context %4u: %8.1f tok/s (%.1f to %.1f), %8.1f per core second "
           "(%.1f to %.1f)\n",
           what, n, context, r->wall[ROUNDS / 2], r->wall[0], r->wall[ROUNDS - 1],
           r->cpu[ROUNDS / 2], r->cpu[0], r->cpu[ROUNDS - 1]);
    fflush(stdout);
}

static double seconds_since(struct mono from)
{
    return (double)mono_since_us(from, clock_mono(&CLOCK_REAL)) / 1e6;
}

static void decode(struct bench *b, uint32_t n_seq, uint32_t context)
{
    struct rates rates;
    uint32_t steps = n_seq > 8 ? 16 : 48;
    for (int r = 0; r < ROUNDS; r++) {
        struct mono from = clock_mono(&CLOCK_REAL);
        double cpu = cpu_seconds();
        for (uint32_t s = 0; s < steps; s++) {
            for (uint32_t i = 0; i < n_seq; i++) {
                b->token[i] = (int32_t)(3 + (s * 31 + i * 7) % 200);
                b->position[i] = context + s;
                b->seq[i] = i;
                b->row[i] = i;
            }
            run(b, n_seq, n_seq);
        }
        rates.wall[r] = steps * n_seq / seconds_since(from);
        rates.cpu[r] = steps * n_seq / (cpu_seconds() - cpu);
    }
    print("decode", n_seq, context, &rates);
}

static void prefill(struct bench *b, uint32_t n)
{
    struct rates rates;
    for (int r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < n; i++) {
            b->token[i] = (int32_t)(3 + i * 7919 % 200);
            b->position[i] = i;
            b->seq[i] = 0;
        }
        b->row[0] = n - 1;
        struct mono from = clock_mono(&CLOCK_REAL);
        double cpu = cpu_seconds();
        run(b, n, 1);
        rates.wall[r] = n / seconds_since(from);
        rates.cpu[r] = n / (cpu_seconds() - cpu);
    }
    print("prefill", n, 0, &rates);
}

int main(int argc, char **argv)
{
    struct err e;
    struct gguf *file;
    static struct bench b;
    const struct model_options o = {.backend = argc > 2 ? argv[2] : NULL,
                                    .n_threads =
                                        argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
                                    .n_kv_blocks = MAX_SEQ * SEQ_BLOCKS,
                                    .max_batch_tokens = MAX_TOK,
                                    .max_batch_rows = MAX_SEQ};
    if (argc < 2 || argc > 4) {
        fputs("usage: bench_model MODEL.gguf [BACKEND [THREADS]]\n", stderr);
        return 2;
    }
    struct mono from = clock_mono(&CLOCK_REAL);
    if (gguf_open(&file, argv[1], &e) != ERR_OK || model_open(&b.model, file, &o, &e) != ERR_OK) {
        fprintf(stderr, "bench_model: %s\n", e.msg);
        return 1;
    }
    gguf_close(file);
    const struct model_info *info = model_get_info(b.model);
    printf("load %.3f s, weights %.1f MB\n", seconds_since(from), (double)info->weight_bytes / 1e6);
    b.logits = calloc((size_t)MAX_SEQ * info->n_vocab, sizeof *b.logits);
    for (uint32_t s = 0; s < MAX_SEQ; s++) {
        b.tables[s] = b.table[s];
        for (uint32_t i = 0; i < SEQ_BLOCKS; i++)
            b.table[s][i] = s * SEQ_BLOCKS + i;
    }
    decode(&b, 1, 0), decode(&b, 1, 400);
    decode(&b, 4, 128), decode(&b, 16, 128), decode(&b, 32, 128);
    prefill(&b, 64), prefill(&b, 512);
    model_close(b.model);
    free(b.logits);
    return 0;
}
