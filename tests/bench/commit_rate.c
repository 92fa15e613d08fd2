/* tests/bench/commit_rate.c - how many scored outputs a second the controller can commit.
 *
 * Frames of a real size (tokens and log probabilities inside) are sent over ZeroMQ (ipc) by a
 * thread of this process, as fast as they are taken; the controller's receiver decodes them on its
 * thread and the writer's thread does insert-or-ignore, the canary law with a running trial, hash
 * chains, sums, the saved state and transactions with synchronous=FULL. The sender's and ZeroMQ's
 * work count against the rate: they share the cores.
 *
 * Usage: bench_commit_rate [FOLDER] [TOKENS] [shares]. Prints the median of five rounds and the
 * spread for each batch size, then where a row's processor time goes. */
#include "controller/receiver.h"

#include "common/rng.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, MAX_TOKENS = 4096, SEED = 1, FRAMES = 8192, SHARE_FRAMES = 4096 };

static const struct {
    uint32_t rows, frames; /* of a batch, of a round */
} BATCHES[] = {{1, 512}, {16, 2048}, {256, FRAMES}, {1024, FRAMES}};

struct bench {
    struct ledger *ledger;
    struct receiver *receiver;
    struct bus *bus;
    struct bus_socket *push;
    struct rng rng;
    uint64_t seq;
    uint32_t n_tokens;
    struct str frame[FRAMES];
    uint32_t n_frame;
    char ipc[256];
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

static struct output next_output(struct bench *b)
{
    static int32_t ids[MAX_TOKENS];
    static float logprobs[MAX_TOKENS];
    static char id[64];
    bool is_bad = rng_uniform(&b->rng) < 0.5;
    b->seq++;
    snprintf(id, sizeof id, "chatcmpl-%012llx%012llx", (unsigned long long)b->seq / 8,
             (unsigned long long)rng_below(&b->rng, UINT64_C(1) << 48));
    for (uint32_t i = 0; i < b->n_tokens; i++) {
        ids[i] = (int32_t)rng_below(&b->rng, 49152);
        logprobs[i] = (float)-rng_uniform(&b->rng);
    }
    return (struct output){.engine = STR("e1"),
                           .epoch = 9,
                           .seq = b->seq,
                           .request_id = str_from(id),
                           .route = STR("default"),
                           .revision = is_bad ? 2 : 1,
                           .arm = is_bad ? STR("challenger") : STR("champion"),
                           .experiment = STR("e2"),
                           .propensity = 0.5,
                           .admission = b->seq,
                           .text =
                               STR("An answer of about the length that a small model gives here."),
                           .token_ids = ids,
                           .logprobs = logprobs,
                           .n_tokens = b->n_tokens,
                           .finish_reason = STR("stop"),
                           .prompt_tokens = 50,
                           .completion_tokens = b->n_tokens};
}

static struct str next_frame(struct bench *b)
{
    struct err e = {0};
    struct buf inner, frame;
    struct output o = next_output(b);
    buf_init(&inner, MiB);
    buf_init(&frame, MiB);
    MUST(output_encode(&o, &inner, &e));
    double reward = rng_uniform(&b->rng) < 0.8 ? 1.0 : 0.0;
    struct score sc = {.verifier = STR("v1"),
                       .check_set = STR("default"),
                       .version = STR("abc"),
                       .engine = o.engine,
                       .request_id = o.request_id,
                       .epoch = 9,
                       .seq = b->seq,
                       .is_scored = true,
                       .reward = reward,
                       .check = {{.id = STR("answer"),
                                  .kind = STR("contains"),
                                  .outcome = reward > 0 ? SCORE_PASS : SCORE_FAIL,
                                  .value = reward,
                                  .weight = 1.0}},
                       .n_check = 1,
                       .output_json = buf_str(&inner)};
    MUST(score_encode(&sc, &frame, &e));
    buf_free(&inner);
    return buf_str(&frame); /* kept until the round is over */
}

static void make_frames(struct bench *b, uint32_t n)
{
    for (uint32_t i = 0; i < b->n_frame; i++)
        free((char *)b->frame[i].p);
    b->n_frame = n;
    for (uint32_t i = 0; i < n; i++)
        b->frame[i] = next_frame(b);
}

static void *send_frames(void *arg)
{
    struct bench *b = arg;
    struct err e;
    for (uint32_t i = 0; i < b->n_frame;) {
        if (bus_send(b->push, (struct str){0}, b->frame[i], &e) == ERR_OK)
            i++;
        else
            usleep(200);
    }
    return NULL;
}

/* Rows a second. */
static double round_of(struct bench *b, uint32_t batch, uint32_t n)
{
    struct err e = {0};
    struct intake_result r;
    pthread_t sender;
    make_frames(b, n);
    struct mono begin = clock_mono(&CLOCK_REAL);
    if (pthread_create(&sender, NULL, send_frames, b) != 0)
        exit(1);
    for (uint32_t done = 0; done < n;) {
        MUST(ledger_begin(b->ledger, &e));
        for (uint32_t i = 0; i < batch && done < n; i++, done++) {
            struct intake_item *x = receiver_take(b->receiver, 10000);
            if (!x)
                exit(1);
            MUST(intake_apply(b->ledger, x, &r, &e));
            receiver_give_back(b->receiver, x);
        }
        MUST(ledger_commit(b->ledger, &e));
    }
    uint64_t us = mono_since_us(begin, clock_mono(&CLOCK_REAL));
    pthread_join(sender, NULL);
    return (double)n * 1e6 / (double)us;
}

/* Shares. */

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

struct shares {
    double parse, hash, pack, policy, rows, commit; /* us of processor time a row */
};

/* A second copy of the law is fed the same rows, to tell its share of the writer's work. */
static void open_twin(struct bench *b, struct course *twin)
{
    struct err e = {0};
    struct stored_state st;
    struct arena a;
    arena_init(&a, 64 * MiB);
    course_init(twin, STR("default"), NULL, NULL);
    MUST(store_get_state(b->ledger->store, STR("default"), &a, &st, &e));
    MUST(course_load(twin, &st, &e));
    arena_free(&a);
}

static void share_of_row(struct bench *b, struct course *twin, struct packer *p, struct str frame,
                         struct shares *s)
{
    static struct intake_item x;
    static struct course_result result;
    static uint64_t row = UINT64_C(1) << 40; /* beyond all that the twin knows */
    struct err e = {0};
    struct intake_result r;
    struct scored_row as_row;
    struct packed packed;
    unsigned char digest[SHA256_BYTES];
    if (!x.arena.max_bytes)
        intake_item_init(&x);
    double t[6];
    t[0] = cpu_us();
    intake_decode(p, frame, PACK_NOW, &x);
    t[1] = cpu_us();
    sha256(x.score.output_json, digest);
    sha256(x.sealed.checks, digest);
    t[2] = cpu_us();
    MUST(packer_pack(p, x.score.output_json, &x.arena, &packed, &e));
    t[3] = cpu_us();
    MUST(intake_apply(b->ledger, &x, &r, &e));
    t[4] = cpu_us();
    store_row_of(&x.sealed, &(struct put_result){.row = row++}, b->ledger->now_us, &as_row);
    MUST(course_feed_row(twin, &as_row, &b->ledger->arena, &result, &e));
    t[5] = cpu_us();
    s->parse += t[1] - t[0] - (t[3] - t[1]);
    s->hash += t[2] - t[1];
    s->pack += t[3] - t[2];
    s->policy += t[5] - t[4];
    s->rows += t[4] - t[3] - (t[5] - t[4]);
}

static void print_shares(struct bench *b)
{
    struct err e = {0};
    struct shares s = {0};
    struct course twin;
    struct packer *p = packer_new();
    open_twin(b, &twin);
    make_frames(b, SHARE_FRAMES);
    for (uint32_t i = 0; i < SHARE_FRAMES; i++) {
        MUST(ledger_begin(b->ledger, &e));
        share_of_row(b, &twin, p, b->frame[i], &s);
        if (i % 1024 != 1023)
            continue;
        double begin = cpu_us();
        MUST(ledger_commit(b->ledger, &e));
        s.commit += cpu_us() - begin;
    }
    double n = SHARE_FRAMES;
    printf("processor time a row: receiver's thread %.1f us (parse %.1f, hash %.1f, pack %.1f); "
           "writer's thread %.1f us (SQL %.1f, policy and chain %.1f, commit of 1024 rows %.1f)\n",
           (s.parse + s.hash + s.pack) / n, s.parse / n, s.hash / n, s.pack / n,
           (s.rows + s.policy + s.commit) / n, s.rows / n, s.policy / n, s.commit / n);
    course_close(&twin);
    packer_free(p);
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

static void open_wire(struct bench *b, const char *folder)
{
    struct err e = {0};
    struct bus_socket *pull;
    snprintf(b->ipc, sizeof b->ipc, "ipc://%s/bench-%ld.sock", folder, (long)getpid());
    struct bus_options o = {.kind = BUS_PULL, .address = b->ipc, .bind = true};
    MUST(bus_open(&b->bus, &e));
    MUST(bus_socket_open(&pull, b->bus, &o, &e));
    MUST(receiver_open(&b->receiver, pull, &e));
    o.kind = BUS_PUSH;
    o.bind = false;
    MUST(bus_socket_open(&b->push, b->bus, &o, &e));
    MUST(receiver_start(b->receiver, &e));
}

static void measure(struct bench *b, bool shares_only)
{
    struct str first = next_frame(b);
    printf("commit_rate: seed %d, %u tokens an output (%zu bytes a frame), synchronous=FULL, %ld "
           "cores\n",
           SEED, b->n_tokens, first.n, sysconf(_SC_NPROCESSORS_ONLN));
    free((char *)first.p);
    for (size_t i = 0; !shares_only && i < sizeof BATCHES / sizeof *BATCHES; i++) {
        double rate[ROUNDS];
        for (int k = 0; k < ROUNDS; k++)
            rate[k] = round_of(b, BATCHES[i].rows, BATCHES[i].frames);
        qsort(rate, ROUNDS, sizeof *rate, compare);
        printf("  batch %4u: median %.0f rows/s (%.0f to %.0f)\n", BATCHES[i].rows,
               rate[ROUNDS / 2], rate[0], rate[ROUNDS - 1]);
    }
    print_shares(b);
}

static void close_bench(struct bench *b, char *path, size_t cap)
{
    bus_socket_close(b->push);
    receiver_close(b->receiver);
    bus_close(b->bus);
    ledger_close(b->ledger);
    make_frames(b, 0);
    unlink(b->ipc + strlen("ipc://"));
    unlink(path);
    snprintf(path + strlen(path), cap - strlen(path), ".lock");
    unlink(path);
}

int main(int argc, char **argv)
{
    static const char *const overrides[] = {
        "routes=[{name: default, policy: {ramp: [\"0.5\"], pair_deadline_ms: 500, max_units: "
        "1000000000}}]"};
    static struct bench b;
    struct err e = {0};
    struct arena a;
    struct milepost_config config;
    const char *folder = argc > 1 ? argv[1] : ".";
    char path[512];
    b.n_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 128;
    snprintf(path, sizeof path, "%s/bench-%ld.sqlite", folder, (long)getpid());
    arena_init(&a, 16 * MiB);
    rng_seed(&b.rng, SEED);
    if (b.n_tokens > MAX_TOKENS)
        b.n_tokens = MAX_TOKENS;
    MUST(milepost_config_load(NULL, overrides, 1, &a, &config, &e));
    struct ledger_options o = {.database = path, .config = &config, .clock = CLOCK_REAL};
    MUST(ledger_open(&b.ledger, &o, &e));
    open_wire(&b, folder);
    start_trial(&b);
    measure(&b, argc > 3 && strcmp(argv[3], "shares") == 0);
    close_bench(&b, path, sizeof path);
    arena_free(&a);
    return 0;
}
