/* bench_attention [THREADS [f16|int8 [CASE]]] - milliseconds that the attention of one step takes
 * in the shape of SmolLM2-135M (30 layers, 9 heads, 3 KV heads of 64): one stream, many streams
 * with and without a common beginning, prompts. Processor time of all threads stands beside the
 * wall clock: what other processes take from the cores does not count in it. Not a test. */
#include "common/clock.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LAYERS = 30,
    HEADS = 9,
    KV_HEADS = 3,
    D_HEAD = 64,
    ROUNDS = 9,
    MAX_TOK = 512,
    HISTORY_CHUNK = 64
};
enum { WIDTH = (HEADS + 2 * KV_HEADS) * D_HEAD, MAX_SEQ = 16, SEQ_BLOCKS = 128 };

struct bench {
    const struct kern_ops *ops;
    struct kern_device *d;
    struct kern_kv *kv;
    struct kern_buffer *qkv, *out;
    float *values; /* [MAX_TOK][WIDTH] */
    uint32_t table[MAX_SEQ][SEQ_BLOCKS];
    const uint32_t *tables[MAX_SEQ];
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK];
    struct kern_step step;
    const char *only; /* NULL: every case */
};

static void body(void *arg)
{
    struct bench *b = arg;
    b->ops->begin(b->d, &b->step, b->kv);
    for (uint32_t i = 0; i < LAYERS; i++)
        b->ops->attention(b->d, &(struct kern_attn_layer){.index = i}, b->qkv, b->out);
}

static void fill(void *arg)
{
    struct bench *b = arg;
    b->ops->write(b->d, b->qkv, b->values, MAX_TOK);
}

static void run(struct bench *b, void (*what)(void *))
{
    struct err e;
    if (b->ops->run(b->d, what, b, &e) != ERR_OK) {
        fprintf(stderr, "bench_attention: %s\n", e.msg);
        exit(1);
    }
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Keys and values of the positions before `from`, so that a step reads memory of its own. */
static void write_history(struct bench *b, uint32_t n_seq, uint32_t from, uint32_t shared)
{
    static uint32_t position[MAX_TOK], seq[MAX_TOK];
    struct kern_step measured = b->step;
    run(b, fill);
    for (uint32_t s = 0; s < n_seq; s++)
        for (uint32_t p = s ? shared * KERN_BLOCK_TOKENS : 0, n; p < from; p += n) {
            n = from - p < HISTORY_CHUNK ? from - p : HISTORY_CHUNK;
            for (uint32_t i = 0; i < n; i++)
                position[i] = p + i, seq[i] = s;
            b->step = (struct kern_step){n, b->token, position, seq, b->tables};
            run(b, body);
        }
    b->step = measured;
}

/* n_seq sequences with n tokens each from position `from` on; the first `shared` blocks of all are
 * those of the first. */
static void measure(struct bench *b, const char *what, uint32_t n_seq, uint32_t n, uint32_t from,
                    uint32_t shared)
{
    double wall[ROUNDS], cpu[ROUNDS];
    if (b->only && !strstr(what, b->only))
        return;
    b->step = (struct kern_step){0, b->token, b->position, b->seq, b->tables};
    for (uint32_t s = 0; s < n_seq; s++) {
        for (uint32_t i = 0; i < SEQ_BLOCKS; i++)
            b->table[s][i] = (i < shared ? 0 : s) * SEQ_BLOCKS + i;
        for (uint32_t i = 0; i < n; i++, b->step.n_tok++) {
            b->position[b->step.n_tok] = from + i;
            b->seq[b->step.n_tok] = s;
        }
    }
    write_history(b, n_seq, from, shared);
    run(b, body);
    for (int r = 0; r < ROUNDS; r++) {
        struct mono start = clock_mono(&CLOCK_REAL);
        double before = cpu_ms();
        run(b, body);
        cpu[r] = cpu_ms() - before;
        wall[r] = (double)mono_since_us(start, clock_mono(&CLOCK_REAL)) / 1e3;
    }
    qsort(wall, ROUNDS, sizeof *wall, by_size);
    qsort(cpu, ROUNDS, sizeof *cpu, by_size);
    printf("%-28s wall %8.3f ms (least %8.3f), processor %8.3f ms (least %8.3f)\n", what,
           wall[ROUNDS / 2], wall[0], cpu[ROUNDS / 2], cpu[0]);
    fflush(stdout);
}

static int open_bench(struct bench *b, uint32_t threads, enum kern_kv_type kv_type,
                      const double *inv_freq, struct err *e)
{
    const struct kern_options o = {.n_threads = threads, .max_tok = MAX_TOK};
    const struct kern_attn_shape shape = {.n_layer = LAYERS,
                                          .n_head = HEADS,
                                          .n_head_kv = KV_HEADS,
                                          .d_head = D_HEAD,
                                          .n_rot = D_HEAD,
                                          .n_rope = 1,
                                          .inv_freq = {inv_freq},
                                          .scale = 0.125f,
                                          .n_blocks = MAX_SEQ * SEQ_BLOCKS,
                                          .kv_type = kv_type,
                                          .max_position = SEQ_BLOCKS * KERN_BLOCK_TOKENS};
    int rc;
    TRY(kern_find(NULL, &b->ops, e));
    TRY(b->ops->open(&b->d, &o, e));
    TRY(b->ops->buffer(b->d, WIDTH, &b->qkv, e));
    TRY(b->ops->buffer(b->d, HEADS * D_HEAD, &b->out, e));
    TRY(b->ops->kv(b->d, &shape, &b->kv, e));
out:
    return rc;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct err e;
    double inv_freq[D_HEAD / 2];
    for (int i = 0; i < D_HEAD / 2; i++)
        inv_freq[i] = pow(10000.0, -2.0 * i / D_HEAD);
    uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    bool is_int8 = argc > 2 && strcmp(argv[2], "int8") == 0;
    if (open_bench(&b, threads, is_int8 ? KERN_KV_INT8 : KERN_KV_F16, inv_freq, &e) != ERR_OK) {
        fprintf(stderr, "bench_attention: %s\n", e.msg);
        return 1;
    }
    b.values = calloc((size_t)MAX_TOK * WIDTH, sizeof *b.values);
    if (!b.values)
        return 1;
    for (uint32_t i = 0; i < MAX_TOK * WIDTH; i++)
        b.values[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    b.only = argc > 3 ? argv[3] : NULL;
    for (uint32_t s = 0; s < MAX_SEQ; s++)
        b.tables[s] = b.table[s];
    measure(&b, "1 stream at 400", 1, 1, 400, 0);
    measure(&b, "1 stream at 1500", 1, 1, 1500, 0);
    measure(&b, "16 streams at 128", 16, 1, 128, 0);
    measure(&b, "16 streams at 450", 16, 1, 450, 0);
    measure(&b, "16 streams at 450, 400 common", 16, 1, 450, 25);
    measure(&b, "prompt of 64", 1, 64, 0, 0);
    measure(&b, "prompt of 512", 1, 512, 0, 0);
    measure(&b, "64 tokens at 1500", 1, 64, 1500, 0);
    b.ops->close(b.d);
    free(b.values);
    return 0;
}
