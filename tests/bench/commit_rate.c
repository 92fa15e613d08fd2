/* tests/bench/commit_rate.c - how many scored outputs a second the controller can commit.
 *
 * Frames of a real size (tokens and log probabilities inside) go through decoding,
 * insert-or-ignore, the canary law with a running trial, the saved state and a transaction with
 * synchronous=FULL. Usage: bench_commit_rate [FOLDER] [TOKENS]. Prints the median of five rounds
 * and the spread. */
#include "controller/intake.h"

#include "common/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 5, MAX_TOKENS = 4096, SEED = 1 };

static const uint32_t BATCHES[] = {1, 16, 256};

struct bench {
    struct ledger *ledger;
    struct intake *intake;
    struct buf frame;
    struct rng rng;
    uint64_t seq;
    uint32_t n_tokens;
};

static void die(const struct err *e)
{
    fprintf(stderr, "bench_commit_rate: %s\n", e->msg);
    exit(1);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != ERR_OK)                                                                      \
            die(&e);                                                                               \
    } while (0)

static void next_frame(struct bench *b)
{
    static int32_t ids[MAX_TOKENS];
    static float logprobs[MAX_TOKENS];
    struct err e = {0};
    struct buf inner;
    char id[32];
    bool is_bad = rng_uniform(&b->rng) < 0.5;
    b->seq++;
    snprintf(id, sizeof id, "r%llu", (unsigned long long)b->seq);
    for (uint32_t i = 0; i < b->n_tokens; i++) {
        ids[i] = (int32_t)rng_below(&b->rng, 49152);
        logprobs[i] = (float)-rng_uniform(&b->rng);
    }
    struct output o = {.engine = STR("e1"),
                       .epoch = 9,
                       .seq = b->seq,
                       .request_id = str_from(id),
                       .route = STR("default"),
                       .revision = is_bad ? 2 : 1,
                       .arm = is_bad ? STR("challenger") : STR("champion"),
                       .experiment = STR("e2"),
                       .propensity = 0.5,
                       .admission = b->seq,
                       .text = STR("An answer of about the length that a small model gives here."),
                       .token_ids = ids,
                       .logprobs = logprobs,
                       .n_tokens = b->n_tokens,
                       .finish_reason = STR("stop"),
                       .prompt_tokens = 50,
                       .completion_tokens = b->n_tokens};
    buf_init(&inner, MiB);
    MUST(output_encode(&o, &inner, &e));
    struct score sc = {.verifier = STR("v1"),
                       .check_set = STR("default"),
                       .version = STR("abc"),
                       .engine = o.engine,
                       .request_id = o.request_id,
                       .epoch = 9,
                       .seq = b->seq,
                       .is_scored = true,
                       .reward = rng_uniform(&b->rng) < 0.8 ? 1.0 : 0.0,
                       .output_json = buf_str(&inner)};
    buf_reset(&b->frame);
    MUST(score_encode(&sc, &b->frame, &e));
    buf_free(&inner);
}

/* Rows a second, without the time it takes to make the frames. */
static double round_of(struct bench *b, uint32_t batch)
{
    struct err e = {0};
    struct intake_result r;
    uint64_t us = 0, n = 0;
    while (us < 400000) {
        for (uint32_t i = 0; i < batch; i++) {
            next_frame(b);
            struct mono t = clock_mono(&CLOCK_REAL);
            MUST(ledger_begin(b->ledger, &e));
            MUST(intake_frame(b->intake, buf_str(&b->frame), &r, &e));
            us += mono_since_us(t, clock_mono(&CLOCK_REAL));
        }
        struct mono t = clock_mono(&CLOCK_REAL);
        MUST(ledger_commit(b->ledger, &e));
        us += mono_since_us(t, clock_mono(&CLOCK_REAL));
        n += batch;
    }
    return (double)n * 1e6 / (double)us;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void start_trial(struct bench *b)
{
    struct err e = {0};
    struct revision r = {.route = STR("default"), .parent = 1, .author = STR("operator:bench")};
    MUST(params_put(&r.params.defaults, PARAM_TEMPERATURE, 0.5, &e));
    MUST(ledger_begin(b->ledger, &e));
    MUST(store_add_revision(b->ledger->store, &r, &e));
    struct ledger_event ev = {.route = &b->ledger->route[0],
                              .kind = "start",
                              .actor = r.author,
                              .payload = STR("{\"revision\":2,\"experiment\":\"e2\"}")};
    MUST(ledger_event(b->ledger, &ev, NULL, &e));
    MUST(ledger_commit(b->ledger, &e));
}

int main(int argc, char **argv)
{
    static const char *const overrides[] = {
        "routes=[{name: default, policy: {ramp: [\"0.5\"], pair_deadline_ms: 500}}]"};
    struct err e = {0};
    struct arena a;
    struct milepost_config config;
    struct bench b = {.n_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 128};
    char path[512];
    snprintf(path, sizeof path, "%s/bench-%ld.sqlite", argc > 1 ? argv[1] : ".", (long)getpid());
    arena_init(&a, 16 * MiB);
    buf_init(&b.frame, 4 * MiB);
    rng_seed(&b.rng, SEED);
    if (b.n_tokens > MAX_TOKENS)
        b.n_tokens = MAX_TOKENS;
    MUST(milepost_config_load(NULL, overrides, 1, &a, &config, &e));
    struct ledger_options o = {.database = path, .config = &config, .clock = CLOCK_REAL};
    MUST(ledger_open(&b.ledger, &o, &e));
    b.intake = intake_new(b.ledger);
    start_trial(&b);
    next_frame(&b);
    printf("commit_rate: seed %d, %u tokens an output (%zu bytes a frame), synchronous=FULL, %ld "
           "cores\n",
           SEED, b.n_tokens, b.frame.n, sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < sizeof BATCHES / sizeof *BATCHES; i++) {
        double rate[ROUNDS];
        for (int k = 0; k < ROUNDS; k++)
            rate[k] = round_of(&b, BATCHES[i]);
        qsort(rate, ROUNDS, sizeof *rate, compare);
        printf("  batch %3u: median %.0f rows/s (%.0f to %.0f)\n", BATCHES[i], rate[ROUNDS / 2],
               rate[0], rate[ROUNDS - 1]);
    }
    intake_free(b.intake);
    ledger_close(b.ledger);
    buf_free(&b.frame);
    arena_free(&a);
    unlink(path);
    snprintf(path + strlen(path), sizeof path - strlen(path), ".lock");
    unlink(path);
    return 0;
}
