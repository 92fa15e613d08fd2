/* Outputs per second through the verifier's pipeline, over ZeroMQ on loopback: an engine's PUSH,
 * the workers with the checks of a plain route, a controller's PULL. Prints median and spread.
 *
 * usage: bench_verifier_rate [WORKERS [OUTPUTS [ROUNDS]]] */
#include "common/clock.h"
#include "verifier/pipeline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ROUNDS = 32, ANSWER_TOKENS = 64, PROMPT_BYTES = 600, WAIT_MS = 10000 };

struct bench {
    struct bus *bus;
    struct bus_socket *engine, *controller;
    uint64_t outputs, first_seq;
};

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "%s: %s\n", what, e->msg);
    exit(1);
}

static struct bus_socket *bind_socket(struct bench *b, enum bus_kind kind)
{
    struct err e;
    struct bus_socket *s = NULL;
    struct bus_options o = {.kind = kind, .address = "tcp://127.0.0.1:*", .bind = true};
    if (bus_socket_open(&s, b->bus, &o, &e) != ERR_OK)
        die("socket", &e);
    return s;
}

static struct check_config check(const char *id, const char *kind, const char *params, bool gate)
{
    return (struct check_config){.id = str_from(id),
                                 .kind = str_from(kind),
                                 .params = str_from(params),
                                 .weight = 1,
                                 .gate = gate,
                                 .timeout_ms = 1000};
}

static struct check_set *open_set(void)
{
    struct err e;
    struct check_set *set = NULL;
    struct check_config config[] = {
        check("finished", "finish_reason", "{}", true),
        check("loops", "repetition", "{}", true),
        check("words", "length", "{\"unit\":\"words\",\"max\":200}", false),
        check("answer", "number", "{}", false),
        check("form", "regex", "{\"pattern\":\"\\\\d+\\\\.?\\\\s*$\"}", false),
        check("json", "json", "{\"mode\":\"embedded\",\"keys\":[\"a\"]}", false),
    };
    struct route_config route = {.name = STR("default"), .checks = {config, 6}};
    if (check_set_open(&set, &route, &e) != ERR_OK)
        die("checks", &e);
    return set;
}

/* One output as an engine would send it: 64 tokens with log-probabilities, a short chat. */
static void fill_output(struct output *o, int32_t *ids, float *logprobs, char *prompt)
{
    for (int i = 0; i < ANSWER_TOKENS; i++) {
        ids[i] = 1000 + i * 7;
        logprobs[i] = -0.01f * (float)i;
    }
    memset(prompt, 'p', PROMPT_BYTES);
    *o = (struct output){.engine = STR("bench"),
                         .epoch = 1,
                         .request_id = STR("request"),
                         .route = STR("default"),
                         .revision = 1,
                         .arm = STR("champion"),
                         .propensity = 1,
                         .unit = STR("u"),
                         .prompt = {prompt, PROMPT_BYTES},
                         .text =
                             STR("First 12 apples and 30 pears {\"a\": 1} make together a number "
                                 "of fruits that is 42."),
                         .token_ids = ids,
                         .logprobs = logprobs,
                         .n_tokens = ANSWER_TOKENS,
                         .finish_reason = STR("stop"),
                         .completion_tokens = ANSWER_TOKENS,
                         .model = STR("m"),
                         .weights = STR("w"),
                         .metadata = STR("{\"reference\":42}")};
}

static void *run_engine(void *arg)
{
    struct bench *b = arg;
    struct output o;
    int32_t ids[ANSWER_TOKENS];
    float logprobs[ANSWER_TOKENS];
    char prompt[PROMPT_BYTES];
    struct buf frame;
    struct err e;
    buf_init(&frame, MiB);
    fill_output(&o, ids, logprobs, prompt);
    for (uint64_t i = 0; i < b->outputs; i++) {
        o.seq = b->first_seq + i;
        buf_reset(&frame);
        if (output_encode(&o, &frame, &e) != ERR_OK)
            die("encode", &e);
        while (bus_send(b->engine, STR(""), buf_str(&frame), &e) != ERR_OK)
            usleep(200);
    }
    buf_free(&frame);
    return NULL;
}

static double one_round(struct bench *b)
{
    pthread_t engine;
    struct buf frame;
    struct err e;
    buf_init(&frame, 16 * MiB);
    struct mono start = clock_mono(&CLOCK_REAL);
    if (pthread_create(&engine, NULL, run_engine, b) != 0)
        exit(1);
    for (uint64_t i = 0; i < b->outputs; i++)
        if (bus_receive(b->controller, WAIT_MS, NULL, &frame, &e) != ERR_OK)
            die("score", &e);
    double seconds = (double)mono_since_us(start, clock_mono(&CLOCK_REAL)) / 1e6;
    pthread_join(engine, NULL);
    b->first_seq += b->outputs;
    buf_free(&frame);
    return (double)b->outputs / seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_rounds(struct bench *b, uint32_t workers, int rounds)
{
    double rate[MAX_ROUNDS];
    one_round(b); /* connections, caches */
    for (int i = 0; i < rounds; i++)
        rate[i] = one_round(b);
    qsort(rate, (size_t)rounds, sizeof *rate, compare);
    printf(
        "verifier rate: %u workers, %ld cores, 6 checks, %llu outputs x %d rounds: median %.0f/s "
        "(min %.0f, max %.0f)\n",
        workers, sysconf(_SC_NPROCESSORS_ONLN), (unsigned long long)b->outputs, rounds,
        rate[rounds / 2], rate[0], rate[rounds - 1]);
}

static long argument(int argc, char **argv, int i, long fallback, long most)
{
    long v = argc > i ? strtol(argv[i], NULL, 10) : fallback;
    return v < 1 ? 1 : v > most ? most : v;
}

int main(int argc, char **argv)
{
    struct err e;
    struct bench b = {.outputs = (uint64_t)argument(argc, argv, 2, 5000, 10000000), .first_seq = 1};
    uint32_t workers = (uint32_t)argument(argc, argv, 1, 2, PIPELINE_MAX_WORKERS);
    if (bus_open(&b.bus, &e) != ERR_OK)
        die("bus", &e);
    b.engine = bind_socket(&b, BUS_PUSH);
    b.controller = bind_socket(&b, BUS_PULL);
    struct check_set *set = open_set();
    struct metrics *metrics = metrics_new();
    struct pipeline *pipeline = NULL;
    struct pipeline_config c = {.outputs = bus_socket_address(b.engine),
                                .scores = bus_socket_address(b.controller),
                                .judge = {STR("bench"), &set, 1},
                                .workers = workers,
                                .max_queue = 1024,
                                .bus = b.bus,
                                .metrics = metrics};
    if (pipeline_start(&pipeline, &c, &e) != ERR_OK)
        die("pipeline", &e);
    run_rounds(&b, workers, (int)argument(argc, argv, 3, 7, MAX_ROUNDS));
    pipeline_stop(pipeline, 1000);
    bus_socket_close(b.engine);
    bus_socket_close(b.controller);
    bus_close(b.bus);
    check_set_close(set);
    metrics_free(metrics);
    return 0;
}
