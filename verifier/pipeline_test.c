/* The threads over both kinds of bus: every output is answered once, back-pressure stops the
 * pulling, stopping finishes what is held, and what nobody takes is given up in time. */
#include "common/test.h"
#include "common/clock.h"
#include "verifier/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEND_WAIT_MS = 5000 };

struct fixture {
    struct bus *bus;
    struct bus_socket *engine, *controller;
    struct check_set *set;
    struct metrics *metrics;
    struct pipeline *pipeline;
    struct pipeline_config config;
    struct arena arena, scratch; /* scratch: the last score */
    struct str prompt;           /* long ones fill the transport's own buffers sooner */
    struct err e;
};

static void open_set(struct fixture *f)
{
    struct check_config check = {.id = STR("len"),
                                 .kind = STR("length"),
                                 .params = STR("{\"unit\":\"words\",\"max\":2}"),
                                 .weight = 1,
                                 .timeout_ms = 1000};
    struct route_config route = {.name = STR("default"), .checks = {&check, 1}};
    assert_ok(check_set_open(&f->set, &route, &f->e), &f->e);
}

static struct bus_socket *bind_socket(struct fixture *f, enum bus_kind kind, const char *address)
{
    struct bus_socket *s = NULL;
    struct bus_options o = {.kind = kind, .address = address, .bind = true, .high_water = 16};
    assert_ok(bus_socket_open(&s, f->bus, &o, &f->e), &f->e);
    return s;
}

static int setup(void **state)
{
    bool is_memory = *(const bool *)*state;
    struct fixture *f = calloc(1, sizeof *f);
    assert_ok(is_memory ? bus_open_memory(&f->bus, &f->e) : bus_open(&f->bus, &f->e), &f->e);
    f->engine = bind_socket(f, BUS_PUSH, is_memory ? "ipc://outputs" : "tcp://127.0.0.1:*");
    f->controller = bind_socket(f, BUS_PULL, is_memory ? "ipc://scores" : "tcp://127.0.0.1:*");
    open_set(f);
    arena_init(&f->arena, 64 * MiB);
    arena_init(&f->scratch, 64 * MiB);
    f->prompt = STR("p");
    f->metrics = metrics_new();
    f->config = (struct pipeline_config){.outputs = bus_socket_address(f->engine),
                                         .scores = bus_socket_address(f->controller),
                                         .judge = {STR("v1"), &f->set, 1, &CLOCK_REAL},
                                         .workers = 3,
                                         .max_queue = 8,
                                         .bus = f->bus,
                                         .metrics = f->metrics};
    assert_ok(pipeline_start(&f->pipeline, &f->config, &f->e), &f->e);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    pipeline_stop(f->pipeline, 100);
    bus_socket_close(f->engine);
    bus_socket_close(f->controller);
    bus_close(f->bus);
    check_set_close(f->set);
    metrics_free(f->metrics);
    arena_free(&f->arena);
    arena_free(&f->scratch);
    free(f);
    return 0;
}

/* False when nobody takes it within the time. */
static bool send_output(struct fixture *f, uint64_t seq, int wait_ms)
{
    struct output o = {.engine = STR("e1"),
                       .epoch = 1,
                       .seq = seq,
                       .request_id = arena_printf(&f->arena, "r%llu", (unsigned long long)seq),
                       .route = STR("default"),
                       .revision = 1,
                       .arm = STR("champion"),
                       .propensity = 1,
                       .unit = STR("u"),
                       .prompt = f->prompt,
                       .text = seq % 2 ? STR("one two") : STR("one two three"),
                       .finish_reason = STR("stop"),
                       .model = STR("m"),
                       .weights = STR("w")};
    struct buf b;
    buf_init(&b, MiB);
    assert_ok(output_encode(&o, &b, &f->e), &f->e);
    int rc = ERR_BUSY;
    for (int waited = 0; waited <= wait_ms && rc != ERR_OK; waited++) {
        rc = bus_send(f->engine, STR(""), buf_str(&b), &f->e);
        if (rc != ERR_OK)
            usleep(1000);
    }
    buf_free(&b);
    return rc == ERR_OK;
}

static bool receive_score(struct fixture *f, struct score *s, int wait_ms)
{
    struct buf b;
    buf_init(&b, 16 * MiB);
    int rc = bus_receive(f->controller, wait_ms, NULL, &b, &f->e);
    arena_reset(&f->scratch);
    if (rc == ERR_OK)
        assert_ok(score_decode(buf_str(&b), &f->scratch, s, &f->e), &f->e);
    buf_free(&b);
    return rc == ERR_OK;
}

static void use_long_prompts(struct fixture *f)
{
    char *p = arena_alloc(&f->arena, 64 * KiB);
    assert_non_null(p);
    memset(p, 'x', 64 * KiB);
    f->prompt = (struct str){p, 64 * KiB};
}

static void test_every_output_is_answered_once(void **state)
{
    struct fixture *f = *state;
    enum { N = 300 };
    uint8_t seen[N + 1] = {0};
    struct score s;
    uint64_t sent = 0, received = 0;
    while (received < N) {
        while (sent < N && send_output(f, sent + 1, sent == 0 ? SEND_WAIT_MS : 0))
            sent++;
        if (!receive_score(f, &s, sent == N ? SEND_WAIT_MS : 20))
            assert_true(sent < N);
        else
            seen[s.seq]++, received++, assert_true(s.is_scored && s.reward == (double)(s.seq % 2));
    }
    for (int i = 1; i <= N; i++)
        assert_int_equal(seen[i], 1);
    assert_false(receive_score(f, &s, 50));
}

static void test_stop_finishes_what_is_held(void **state)
{
    struct fixture *f = *state;
    struct score s;
    for (uint64_t i = 1; i <= 10; i++)
        assert_true(send_output(f, i, SEND_WAIT_MS));
    assert_true(receive_score(f, &s, SEND_WAIT_MS)); /* it is running */
    usleep(100000);                                  /* the others were pulled meanwhile */
    pipeline_stop(f->pipeline, 3000);
    f->pipeline = NULL;
    for (int i = 2; i <= 10; i++)
        assert_true(receive_score(f, &s, SEND_WAIT_MS));
}

/* A stall longer than the transport's heartbeat costs the connection and what was under way on it:
 * the outbox sends again what stayed without an answer, and so does this. */
static void expect_all_answered(struct fixture *f, uint64_t last)
{
    enum { ROUNDS = 20, QUIET_MS = 500 };
    uint8_t *seen = calloc(last + 1, 1);
    uint64_t missing = last;
    struct score s;
    assert_non_null(seen);
    for (int round = 0; round < ROUNDS && missing > 0; round++) {
        for (uint64_t i = 1; round > 0 && i <= last; i++)
            if (!seen[i])
                assert_true(send_output(f, i, SEND_WAIT_MS));
        while (missing > 0 && receive_score(f, &s, round ? SEND_WAIT_MS : QUIET_MS)) {
            assert_in_range(s.seq, 1, last);
            missing -= !seen[s.seq];
            seen[s.seq] = 1;
        }
    }
    free(seen);
    assert_int_equal(missing, 0);
}

/* Nobody reads the scores: pulling must stop after the queues are full, and start again. */
static void test_back_pressure(void **state)
{
    struct fixture *f = *state;
    uint64_t sent = 0;
    use_long_prompts(f);
    while (sent < 100000 && send_output(f, sent + 1, sent == 0 ? SEND_WAIT_MS : 300))
        sent++;
    assert_in_range(sent, 16, 99999);
    expect_all_answered(f, sent + 1); /* one more than was taken */
}

static void test_stop_gives_up_in_time(void **state)
{
    struct fixture *f = *state;
    uint64_t sent = 0;
    use_long_prompts(f);
    while (sent < 100000 && send_output(f, sent + 1, sent == 0 ? SEND_WAIT_MS : 300))
        sent++;
    struct mono start = clock_mono(&CLOCK_REAL);
    pipeline_stop(f->pipeline, 200);
    f->pipeline = NULL;
    assert_in_range(mono_since_us(start, clock_mono(&CLOCK_REAL)), 0, 5000000);
}

static void test_garbage_does_not_stop_it(void **state)
{
    struct fixture *f = *state;
    struct score s;
    assert_true(send_output(f, 1, SEND_WAIT_MS));
    static const char *const junk[] = {"", "{", "\xFF\xFE", "[]", "{\"schema\":1}"};
    for (int i = 0; i < 5; i++)
        (void)!bus_send(f->engine, STR(""), str_from(junk[i]), &f->e);
    assert_true(send_output(f, 2, SEND_WAIT_MS));
    assert_true(receive_score(f, &s, SEND_WAIT_MS));
    assert_true(receive_score(f, &s, SEND_WAIT_MS));
    assert_false(receive_score(f, &s, 50));
}

#define ON(test, kind)                                                                             \
    {                                                                                              \
#test " " #kind, test, setup, teardown, (void *)&kind                                      \
    }

int main(void)
{
    static const bool memory = true, zeromq = false;
    const struct CMUnitTest tests[] = {
        ON(test_every_output_is_answered_once, memory),
        ON(test_every_output_is_answered_once, zeromq),
        ON(test_stop_finishes_what_is_held, memory),
        ON(test_stop_finishes_what_is_held, zeromq),
        ON(test_back_pressure, memory),
        ON(test_back_pressure, zeromq),
        ON(test_stop_gives_up_in_time, zeromq),
        ON(test_garbage_does_not_stop_it, memory),
        ON(test_garbage_does_not_stop_it, zeromq),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
