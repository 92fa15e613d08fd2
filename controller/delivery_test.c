/* Delivery under loss, repetition, disorder and restarts: the in-memory bus with seeded
 * faults, a made-up engine with an outbox, the real loop. For every seed: each finished output is
 * in the database exactly once, nothing is acknowledged that is not committed, replay agrees. */
#include "controller/loop.h"
#include "controller/replay.h"
#include "controller/sample_frame.h"

#include "common/rng.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 8, OUTPUTS = 150, STEPS_MAX = 6000, RESEND_STEPS = 6 };

struct world {
    uint64_t seed;
    struct rng rng;
    struct err e;
    struct arena arena;
    struct milepost_config config;
    struct bus *bus;
    struct metrics *metrics;
    struct board *board;
    struct loop *loop;
    struct bus_socket *verifier, *engine;
    struct fake_clock fake;
    char path[96];
    /* the engine */
    uint64_t finished, mark; /* outputs finished so far; acknowledged up to here */
    int resend_in;
    uint64_t applied;
};

static void open_loop(struct world *w)
{
    struct loop_options o = {.config = &w->config,
                             .database = w->path,
                             .bus = w->bus,
                             .scores = "ipc:///scores",
                             .control = "ipc:///control",
                             .metrics = w->metrics,
                             .board = w->board,
                             .clock = fake_clock_as_clock(&w->fake),
                             .version = "test"};
    assert_ok(loop_open(&w->loop, &o, &w->e), &w->e);
}

static void open_world(struct world *w, uint64_t seed)
{
    static const char *const overrides[] = {"controller.batch_ms=1", "controller.batch_rows=20",
                                            ("routes=[{name: default, policy: {pair_deadline_ms: "
                                             "500}}]")};
    *w = (struct world){.seed = seed, .fake.wall_now = {1000000000}, .fake.now = {1000000}};
    rng_seed(&w->rng, seed);
    snprintf(w->path, sizeof w->path, "/tmp/milepost-delivery-%ld-%llu.db", (long)getpid(),
             (unsigned long long)seed);
    arena_init(&w->arena, 16 * MiB);
    w->metrics = metrics_new();
    w->board = board_new();
    assert_ok(milepost_config_load(NULL, overrides, 3, &w->arena, &w->config, &w->e), &w->e);
    assert_ok(bus_open_memory(&w->bus, &w->e), &w->e);
    open_loop(w);
    struct bus_options v = {.kind = BUS_PUSH, .address = "ipc:///scores"};
    struct bus_options g = {.kind = BUS_DEALER, .address = "ipc:///control", .identity = "e1"};
    assert_ok(bus_socket_open(&w->verifier, w->bus, &v, &w->e), &w->e);
    assert_ok(bus_socket_open(&w->engine, w->bus, &g, &w->e), &w->e);
    struct bus_faults faults = {.seed = seed, .loss = 0.1, .duplicate = 0.1, .reorder = 0.3};
    bus_memory_set_faults(w->bus, &faults);
}

static void close_world(struct world *w)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", ".lock"};
    bus_socket_close(w->verifier);
    bus_socket_close(w->engine);
    loop_close(w->loop);
    bus_close(w->bus);
    board_free(w->board);
    metrics_free(w->metrics);
    arena_free(&w->arena);
    for (int i = 0; i < 4; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s%s", w->path, SUFFIX[i]);
        unlink(file);
    }
}

static void say(struct world *w, const struct control *c)
{
    struct buf b;
    buf_init(&b, MiB);
    assert_ok(control_encode(c, &b, &w->e), &w->e);
    (void)!bus_send(w->engine, (struct str){0}, buf_str(&b), &w->e); /* lost is lost */
    buf_free(&b);
}

static void heartbeat(struct world *w)
{
    struct control c = {.type = CONTROL_HEARTBEAT,
                        .heartbeat = {.engine = STR("e1"),
                                      .epoch = 9,
                                      .next_seq = w->finished + 1,
                                      .oldest_seq = w->mark + 1,
                                      .desired_version = w->applied,
                                      .outbox_rows = w->finished - w->mark}};
    say(w, &c);
}

static int64_t count(struct world *w, const char *sql)
{
    struct db *d;
    struct db_stmt *q;
    assert_ok(db_open_readonly(&d, w->path, &w->e), &w->e);
    assert_ok(db_prepare(d, &q, sql, &w->e), &w->e);
    assert_ok(db_step(q, &w->e), &w->e);
    int64_t n = db_col_i64(q, 0);
    db_close(d);
    return n;
}

/* What the engine hears. A mark must never run ahead of what is committed. */
static void listen(struct world *w)
{
    struct buf b;
    struct arena a;
    buf_init(&b, MiB);
    arena_init(&a, 4 * MiB);
    while (bus_receive(w->engine, 0, NULL, &b, &w->e) == ERR_OK) {
        struct control c;
        arena_reset(&a);
        assert_ok(control_decode(buf_str(&b), &a, &c, &w->e), &w->e);
        if (c.type == CONTROL_DESIRED && c.desired.version > w->applied)
            w->applied = c.desired.version;
        if (c.type != CONTROL_COMMIT || c.commit.seq <= w->mark)
            continue;
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM outputs WHERE seq<=%llu",
                 (unsigned long long)c.commit.seq);
        assert_int_equal(count(w, sql), (int64_t)c.commit.seq);
        w->mark = c.commit.seq;
    }
    arena_free(&a);
    buf_free(&b);
}

static void send_output(struct world *w, uint64_t seq)
{
    struct buf b;
    struct sample m = {seq, 1, "default", "champion", "", 1.0, (double)(seq % 11) / 10.0};
    buf_init(&b, MiB);
    sample_frame(&m, w->fake.wall_now.us, &b);
    (void)!bus_send(w->verifier, (struct str){0}, buf_str(&b), &w->e);
    buf_free(&b);
}

static void step(struct world *w)
{
    for (uint64_t n = rng_below(&w->rng, 4); n && w->finished < OUTPUTS; n--)
        send_output(w, ++w->finished);
    if (--w->resend_in <= 0) { /* everything without a mark goes out again */
        for (uint64_t seq = w->mark + 1; seq <= w->finished; seq++)
            send_output(w, seq);
        w->resend_in = RESEND_STEPS;
    }
    if (rng_below(&w->rng, 3) == 0)
        heartbeat(w);
    if (rng_below(&w->rng, 25) == 0) { /* the controller goes and comes back */
        loop_close(w->loop);
        open_loop(w);
    }
    fake_clock_advance(&w->fake, 20000);
    assert_ok(loop_turn(w->loop, 0, &w->e), &w->e);
    listen(w);
}

static void test_each_output_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world w;
        struct replay_report report;
        open_world(&w, seed);
        int steps = 0;
        while (w.mark < OUTPUTS && steps++ < STEPS_MAX)
            step(&w);
        if (w.mark != OUTPUTS)
            fail_msg("seed %llu: mark %llu after %d steps", (unsigned long long)seed,
                     (unsigned long long)w.mark, steps);
        assert_int_equal(count(&w, "SELECT count(*) FROM outputs"), OUTPUTS);
        assert_int_equal(count(&w, "SELECT count(*) FROM scores"), OUTPUTS);
        assert_int_equal(count(&w, "SELECT count(*) FROM gaps"), 0);
        assert_true(w.applied >= 1);
        assert_ok(replay_run(w.path, &report, &w.e), &w.e);
        if (!report.agrees)
            fail_msg("seed %llu: %s", (unsigned long long)seed, report.difference);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_output_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
