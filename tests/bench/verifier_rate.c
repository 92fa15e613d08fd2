/* Outputs per second through the verifier's pipeline, over ZeroMQ on loopback: an engine's PUSH,
 * the workers with the checks of a plain route, a controller's PULL that reads each score's key.
 * Outputs are encoded before the clock starts: that is the engine's work. Three contexts, as three
 * processes have; all of it shares the cores. Prints rate, CPU time by part, memory.
 *
 * usage: bench_verifier_rate [--workers N] [--outputs N] [--rounds N] [--min-rate R] [--check]
 * --check: one round, memory sampled; exit 1 when it grows. --min-rate: exit 1 below it. */
#include "common/clock.h"
#include "verifier/pipeline.h"
#include "tests/bench/verifier_outputs.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MAX_ROUNDS = 32,
    WAIT_MS = 60000,
    N_FRAME = 512,
    N_SAMPLE = 20,
    SEQ_DIGITS = 10,
    N_CHECK = 5
};
enum { N_PASS = 8, GROWTH_MAX_KIB = 4096 };
#define FIRST_SEQ 1000000000ull

struct frame {
    struct buf text;
    size_t seq_at;
};

struct bench {
    struct bus *engine_bus, *verifier_bus, *controller_bus;
    struct bus_socket *engine, *controller;
    struct check_set *set;
    struct pipeline *pipeline;
    struct metrics *metrics;
    struct frame frame[N_FRAME];
    uint64_t outputs, sent, checksum;
    long rss_kib[N_SAMPLE];
};

static void must(int rc, const char *what, const struct err *e)
{
    if (rc == ERR_OK)
        return;
    fprintf(stderr, "bench_verifier_rate: %s: %s\n", what, e->msg);
    exit(1);
}

static struct bus_socket *bind_socket(struct bus *bus, enum bus_kind kind)
{
    struct err e = {0};
    struct bus_socket *s = NULL;
    struct bus_options o = {.kind = kind, .address = "tcp://127.0.0.1:*", .bind = true};
    must(bus_socket_open(&s, bus, &o, &e), "socket", &e);
    return s;
}

static struct check_config check(const char *kind, const char *params)
{
    return (struct check_config){
        .kind = str_from(kind), .params = str_from(params), .weight = 1, .timeout_ms = 1000};
}

static struct check_set *open_set(void)
{
    struct err e = {0};
    struct check_set *set = NULL;
    struct check_config config[N_CHECK] = {
        check("length", "{\"unit\":\"words\",\"min\":20,\"max\":800}"),
        check("regex", "{\"pattern\":\"The answer is \\\\d+\\\\.?\\\\s*$\"}"),
        check("json", "{\"mode\":\"embedded\",\"keys\":[\"a\",\"unit\"]}"),
        check("repetition", "{}"),
        check("number", "{}"),
    };
    struct route_config route = {.name = STR("default"), .checks = {config, N_CHECK}};
    must(check_set_open(&set, &route, &e), "checks", &e);
    return set;
}

static void encode_frames(struct bench *b)
{
    static const char KEY[] = "\"seq\":";
    struct err e = {0};
    for (size_t i = 0; i < N_FRAME; i++) {
        struct frame *f = &b->frame[i];
        buf_init(&f->text, MiB);
        must(bench_encode_output(i + 1, &f->text, &e), "encode", &e);
        f->seq_at = (size_t)str_find(buf_str(&f->text), STR(KEY), 0) + sizeof KEY - 1;
    }
}

static void write_seq(struct frame *f, uint64_t seq)
{
    for (size_t i = SEQ_DIGITS; i-- > 0; seq /= 10)
        f->text.p[f->seq_at + i] = (char)('0' + seq % 10);
}

static uint64_t read_seq(struct str score)
{
    static const char KEY[] = "\"seq\":";
    ptrdiff_t at = str_find(str_slice(score, 0, 1024), STR(KEY), 0);
    uint64_t seq = 0;
    for (size_t i = (size_t)at + sizeof KEY - 1; at >= 0 && score.p[i] >= '0' && score.p[i] <= '9';
         i++)
        seq = seq * 10 + (uint64_t)(score.p[i] - '0');
    return seq;
}

static void *run_engine(void *arg)
{
    struct bench *b = arg;
    struct err e;
    for (uint64_t i = 0; i < b->outputs; i++) {
        struct frame *f = &b->frame[i % N_FRAME];
        write_seq(f, FIRST_SEQ + b->sent++);
        while (bus_send(b->engine, STR(""), buf_str(&f->text), &e) != ERR_OK)
            usleep(1000);
    }
    return NULL;
}

static long rss_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* All scores: each key once, each one scored. */
static void run_controller(struct bench *b)
{
    struct buf score;
    struct err e = {0};
    uint64_t every = b->outputs < N_SAMPLE ? 1 : b->outputs / N_SAMPLE, seq;
    buf_init(&score, 16 * MiB);
    for (uint64_t i = 1; i <= b->outputs; i++) {
        must(bus_receive(b->controller, WAIT_MS, NULL, &score, &e), "score", &e);
        seq = read_seq(buf_str(&score));
        b->checksum ^= (seq - FIRST_SEQ) * 0x9E3779B97F4A7C15u;
        if (str_find(str_slice(buf_str(&score), 0, 1024), STR("\"scored\":true"), 0) < 0)
            must(ERR_BUG, "a score", &(struct err){.msg = "unscored"});
        if (i % every == 0 && i / every <= N_SAMPLE)
            b->rss_kib[i / every - 1] = rss_kib();
    }
    buf_free(&score);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

struct round {
    double rate, cpu_us; /* outputs a second; CPU time of one, by all threads of all three ends */
};

static struct round one_round(struct bench *b)
{
    pthread_t engine;
    uint64_t want = 0;
    for (uint64_t i = b->sent; i < b->sent + b->outputs; i++)
        want ^= i * 0x9E3779B97F4A7C15u;
    b->checksum = 0;
    double cpu = cpu_seconds();
    struct mono start = clock_mono(&CLOCK_REAL);
    if (pthread_create(&engine, NULL, run_engine, b) != 0)
        exit(1);
    run_controller(b);
    double seconds = (double)mono_since_us(start, clock_mono(&CLOCK_REAL)) / 1e6;
    cpu = cpu_seconds() - cpu;
    pthread_join(engine, NULL);
    if (b->checksum != want)
        must(ERR_BUG, "scores", &(struct err){.msg = "not every output once"});
    return (struct round){(double)b->outputs / seconds, cpu * 1e6 / (double)b->outputs};
}

static int compare(const void *a, const void *b)
{
    double x = ((const struct round *)a)->rate, y = ((const struct round *)b)->rate;
    return (x > y) - (x < y);
}

/* The parts of one output's work, on one thread, without sockets: decode and encode alone, and all
 * of it; what is left of the whole are the checks. */
struct parts {
    double parse_us, checks_us, emit_us, kind_us[N_CHECK];
};

static double us_each(uint64_t start)
{
    return (double)(clock_cpu_us() - start) / N_FRAME;
}

/* Judges every frame, encodes each score `again` times more. */
static double judge_all(struct bench *b, int again, struct parts *p)
{
    static struct score score;
    struct judge judge = {STR("bench"), &b->set, 1, &CLOCK_REAL};
    struct arena scratch;
    struct buf text;
    struct err e = {0};
    arena_init(&scratch, 64 * MiB);
    buf_init(&text, MiB);
    uint64_t start = clock_cpu_us();
    for (size_t i = 0; i < N_FRAME; i++, arena_reset(&scratch)) {
        (void)judge_frame(&judge, buf_str(&b->frame[i].text), &scratch, &score, &text, &e);
        for (int k = 0; k < again; k++) {
            buf_reset(&text);
            must(score_encode(&score, &text, &e), "encode", &e);
        }
        for (size_t k = 0; k < N_CHECK; k++)
            p->kind_us[k] += (double)score.check[k].duration_us / N_FRAME;
    }
    double us = us_each(start);
    arena_free(&scratch);
    buf_free(&text);
    return us;
}

static struct parts measure_parts(struct bench *b)
{
    struct arena scratch;
    struct output o;
    struct err e = {0};
    struct parts p = {0}, ignored;
    arena_init(&scratch, 64 * MiB);
    uint64_t start = clock_cpu_us();
    for (size_t i = 0; i < N_FRAME; i++, arena_reset(&scratch))
        must(output_decode(buf_str(&b->frame[i].text), &scratch, &o, &e), "decode", &e);
    p.parse_us = us_each(start);
    arena_free(&scratch);
    double all = judge_all(b, 0, &p);
    p.emit_us = (judge_all(b, 4, &ignored) - all) / 4;
    p.checks_us = all - p.parse_us - p.emit_us;
    return p;
}

/* Of several passes the smallest of each: what came between belongs to others. */
static struct parts smallest_parts(struct bench *b)
{
    struct parts least = measure_parts(b);
    for (int i = 0; i < N_PASS; i++) {
        struct parts p = measure_parts(b);
        least.parse_us = fmin(least.parse_us, p.parse_us);
        least.checks_us = fmin(least.checks_us, p.checks_us);
        least.emit_us = fmin(least.emit_us, p.emit_us);
        for (size_t k = 0; k < N_CHECK; k++)
            least.kind_us[k] = fmin(least.kind_us[k], p.kind_us[k]);
    }
    return least;
}

static void print_parts(struct bench *b, double cpu_us)
{
    struct parts p = smallest_parts(b);
    double rest = cpu_us - p.parse_us - p.checks_us - p.emit_us;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    printf("CPU time of one output: %.1f us (%ld cores are full at %.0f/s): parse %.1f (%.0f%%), "
           "checks %.1f (%.0f%%), emit %.1f (%.0f%%), sockets and threads of the three ends %.1f "
           "(%.0f%%)\n",
           cpu_us, cores, (double)cores * 1e6 / cpu_us, p.parse_us, 100 * p.parse_us / cpu_us,
           p.checks_us, 100 * p.checks_us / cpu_us, p.emit_us, 100 * p.emit_us / cpu_us, rest,
           100 * rest / cpu_us);
    printf("checks: length %.1f, regex %.1f, json %.1f, repetition %.1f, number %.1f us\n",
           p.kind_us[0], p.kind_us[1], p.kind_us[2], p.kind_us[3], p.kind_us[4]);
}

static double run_rounds(struct bench *b, uint32_t workers, int rounds)
{
    struct round round[MAX_ROUNDS];
    size_t bytes = 0;
    one_round(b); /* connections, caches */
    for (int i = 0; i < rounds; i++)
        round[i] = one_round(b);
    qsort(round, (size_t)rounds, sizeof *round, compare);
    for (size_t i = 0; i < N_FRAME; i++)
        bytes += b->frame[i].text.n / N_FRAME;
    printf("verifier rate: %u workers, %ld cores, %d checks, records of %zu bytes, %llu outputs x "
           "%d rounds: median %.0f/s (min %.0f, max %.0f)\n",
           workers, sysconf(_SC_NPROCESSORS_ONLN), N_CHECK, bytes, (unsigned long long)b->outputs,
           rounds, round[rounds / 2].rate, round[0].rate, round[rounds - 1].rate);
    print_parts(b, round[rounds / 2].cpu_us);
    return round[rounds / 2].rate;
}

static double mean_rss(const struct bench *b, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++)
        sum += (double)b->rss_kib[i];
    return sum / (to - from);
}

/* The last quarter stands no higher than the second: queues fill and empty, so single samples vary
 * by a few MiB. */
static bool is_flat(struct bench *b, double *rate)
{
    struct round r = one_round(b);
    printf("RSS in KiB at each 5%%:");
    for (int i = 0; i < N_SAMPLE; i++)
        printf(" %ld", b->rss_kib[i]);
    double before = mean_rss(b, N_SAMPLE / 4, N_SAMPLE / 2);
    double after = mean_rss(b, N_SAMPLE * 3 / 4, N_SAMPLE);
    bool is_good = after <= before + GROWTH_MAX_KIB;
    printf("\n%llu outputs, %.0f/s, each scored once; mean of the second quarter %.0f, of the last "
           "%.0f: memory %s\n",
           (unsigned long long)b->outputs, r.rate, before, after, is_good ? "flat" : "GROWS");
    *rate = r.rate;
    return is_good;
}

static void open_all(struct bench *b, uint32_t workers)
{
    struct err e = {0};
    must(bus_open(&b->engine_bus, &e), "bus", &e);
    must(bus_open(&b->verifier_bus, &e), "bus", &e);
    must(bus_open(&b->controller_bus, &e), "bus", &e);
    b->engine = bind_socket(b->engine_bus, BUS_PUSH);
    b->controller = bind_socket(b->controller_bus, BUS_PULL);
    b->set = open_set();
    b->metrics = metrics_new();
    encode_frames(b);
    struct pipeline_config c = {.outputs = bus_socket_address(b->engine),
                                .scores = bus_socket_address(b->controller),
                                .judge = {STR("bench"), &b->set, 1, &CLOCK_REAL},
                                .workers = workers,
                                .max_queue = 1024,
                                .bus = b->verifier_bus,
                                .metrics = b->metrics};
    must(pipeline_start(&b->pipeline, &c, &e), "pipeline", &e);
}

static void close_all(struct bench *b)
{
    pipeline_stop(b->pipeline, 1000);
    bus_socket_close(b->engine);
    bus_socket_close(b->controller);
    bus_close(b->engine_bus);
    bus_close(b->verifier_bus);
    bus_close(b->controller_bus);
    check_set_close(b->set);
    metrics_free(b->metrics);
    for (size_t i = 0; i < N_FRAME; i++)
        buf_free(&b->frame[i].text);
}

enum { WORKERS, OUTPUTS, ROUNDS, MIN_RATE, N_NUMBER };

static bool read_options(int argc, char **argv, long v[N_NUMBER], bool *is_soak)
{
    static const struct {
        const char *name;
        long low, high;
    } NUMBER[N_NUMBER] = {{"--workers", 1, PIPELINE_MAX_WORKERS},
                          {"--outputs", N_SAMPLE, 1000000000},
                          {"--rounds", 1, MAX_ROUNDS},
                          {"--min-rate", 0, 10000000}};
    for (int i = 1; i < argc; i++) {
        int k = 0;
        if (strcmp(argv[i], "--check") == 0) {
            *is_soak = true;
            continue;
        }
        while (k < N_NUMBER && strcmp(argv[i], NUMBER[k].name) != 0)
            k++;
        if (k == N_NUMBER || ++i == argc)
            return false;
        char *end = NULL;
        v[k] = strtol(argv[i], &end, 10);
        if (*end || v[k] < NUMBER[k].low || v[k] > NUMBER[k].high)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct bench b;
    long v[N_NUMBER] = {2, 20000, 7, 0};
    bool is_soak = false;
    if (!read_options(argc, argv, v, &is_soak)) {
        fprintf(stderr, "usage: bench_verifier_rate [--workers N] [--outputs N] [--rounds N] "
                        "[--min-rate R] [--check]\n");
        return 2;
    }
    double rate = 0;
    b.outputs = (uint64_t)v[OUTPUTS];
    open_all(&b, (uint32_t)v[WORKERS]);
    bool is_good = true;
    if (is_soak)
        is_good = is_flat(&b, &rate);
    else
        rate = run_rounds(&b, (uint32_t)v[WORKERS], (int)v[ROUNDS]);
    close_all(&b);
    return is_good && rate >= (double)v[MIN_RATE] ? 0 : 1;
}
