/* The wire against a pretended verifier and controller on the in-memory bus. */
#include "common/test.h"

#include "engine/control/wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    char dir[40], path[64];
    struct bus *bus;
    struct outbox *outbox;
    struct wire *wire;
    struct bus_socket *pull, *router;
    struct buf peer, in;
    struct arena arena;
    pthread_mutex_t lock;
    uint64_t desired, commands;
    int stored;
};

static void on_desired(void *ctx, const struct desired *d, struct str text)
{
    struct fixture *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->desired = d->version;
    pthread_mutex_unlock(&f->lock);
    assert_true(text.n > 0);
}

static void on_command(void *ctx, const struct control_command *c)
{
    struct fixture *f = ctx;
    wire_post_result(f->wire, c->id, true, STR("done"));
}

static int set_up(void **state)
{
    static struct fixture f;
    struct err e;
    memset(&f, 0, sizeof f);
    strncpy(f.dir, "/tmp/milepost_wire_XXXXXX", sizeof f.dir - 1);
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.path, sizeof f.path, "%s/outbox.db", f.dir);
    pthread_mutex_init(&f.lock, NULL);
    arena_init(&f.arena, 4 * MiB);
    buf_init(&f.peer, 1 * KiB);
    buf_init(&f.in, 4 * MiB);
    struct outbox_config oc = {.path = f.path, .max_bytes = 1 << 24, .engine = STR("e1")};
    assert_ok(bus_open_memory(&f.bus, &e), &e);
    assert_ok(outbox_open(&f.outbox, &oc, &e), &e);
    struct bus_options pull = {.kind = BUS_PULL, .address = "ipc://outputs"};
    struct bus_options router = {.kind = BUS_ROUTER, .address = "ipc://control", .bind = true};
    assert_ok(bus_socket_open(&f.router, f.bus, &router, &e), &e);
    struct wire_config wc = {.bus = f.bus,
                             .clock = &CLOCK_REAL,
                             .outbox = f.outbox,
                             .outputs_address = "ipc://outputs",
                             .control_address = "ipc://control",
                             .engine = STR("e1"),
                             .model = STR("m"),
                             .weights = STR("w"),
                             .version = STR("v"),
                             .applied = 4,
                             .resend_ms = 150,
                             .heartbeat_ms = 30,
                             .on_desired = on_desired,
                             .on_command = on_command,
                             .ctx = &f};
    assert_ok(wire_start(&f.wire, &wc, &e), &e);
    assert_ok(bus_socket_open(&f.pull, f.bus, &pull, &e), &e);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    wire_stop(f->wire, 100);
    bus_socket_close(f->pull);
    bus_socket_close(f->router);
    outbox_close(f->outbox);
    bus_close(f->bus);
    arena_free(&f->arena);
    buf_free(&f->peer);
    buf_free(&f->in);
    return 0;
}

static void on_stored(void *ctx, bool is_stored)
{
    ((struct fixture *)ctx)->stored += is_stored;
}

static void put_outputs(struct fixture *f, int n)
{
    static struct output out[64];
    int want = f->stored + n;
    for (int i = 0; i < n; i++) {
        out[i] = (struct output){.request_id = STR("r"),
                                 .route = STR("d"),
                                 .arm = STR("champion"),
                                 .text = STR("t"),
                                 .finish_reason = STR("stop"),
                                 .propensity = 1};
        struct outbox_item item = {.output = &out[i], .on_stored = on_stored, .ctx = f};
        outbox_put(f->outbox, &item);
    }
    for (int i = 0; i < 300 && f->stored < want; i++) {
        poll(NULL, 0, 10);
        outbox_drain(f->outbox);
    }
    assert_int_equal(f->stored, want);
}

static uint64_t pull_seq(struct fixture *f)
{
    struct output out;
    struct err e;
    assert_ok(bus_receive(f->pull, 3000, NULL, &f->in, &e), &e);
    arena_reset(&f->arena);
    assert_ok(output_decode(buf_str(&f->in), &f->arena, &out, &e), &e);
    return out.seq;
}

static void send_control(struct fixture *f, const struct control *m)
{
    struct buf text;
    struct err e;
    buf_init(&text, 1 * MiB);
    assert_ok(control_encode(m, &text, &e), &e);
    assert_ok(bus_send(f->router, STR("e1"), buf_str(&text), &e), &e);
    buf_free(&text);
}

/* The next message of this type from the engine. */
static struct control receive_type(struct fixture *f, enum control_type type)
{
    for (int i = 0; i < 200; i++) {
        struct control m;
        struct err e;
        if (bus_receive(f->router, 100, &f->peer, &f->in, NULL) != ERR_OK)
            continue;
        arena_reset(&f->arena);
        assert_ok(control_decode(buf_str(&f->in), &f->arena, &m, &e), &e);
        if (m.type == type)
            return m;
    }
    fail_msg("no message of type %d came", (int)type);
    return (struct control){0};
}

static void test_hello_and_heartbeat(void **state)
{
    struct fixture *f = *state;
    wire_set_applied(f->wire, 9);
    struct control hello = receive_type(f, CONTROL_HELLO);
    assert_str(hello.hello.engine, "e1");
    assert_int_equal(hello.hello.next_seq, 1);
    assert_int_equal(hello.hello.desired_version, 4); /* of the life before */
    assert_int_equal(receive_type(f, CONTROL_HELLO).hello.desired_version, 9);
    wire_set_stats(f->wire, &(struct wire_stats){.running = 3, .kv_usage = 0.5});
    struct control beat = {0};
    for (int i = 0; i < 50 && beat.heartbeat.running != 3; i++)
        beat = receive_type(f, CONTROL_HEARTBEAT);
    assert_int_equal(beat.heartbeat.running, 3);
}

static void test_outputs_once_when_committed(void **state)
{
    struct fixture *f = *state;
    receive_type(f, CONTROL_HELLO);
    put_outputs(f, 5);
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(pull_seq(f), i);
    struct outbox_state st;
    outbox_get_state(f->outbox, &st);
    struct control m = {.type = CONTROL_COMMIT, .commit = {STR("e1"), st.epoch, 5, {0}}};
    send_control(f, &m);
    for (int i = 0; i < 200 && st.rows; i++) {
        poll(NULL, 0, 10);
        outbox_get_state(f->outbox, &st);
    }
    assert_int_equal(st.rows, 0);
    assert_int_equal(bus_receive(f->pull, 500, NULL, &f->in, NULL), ERR_TIMEOUT);
}

static void test_uncommitted_is_sent_again(void **state)
{
    struct fixture *f = *state;
    receive_type(f, CONTROL_HELLO);
    put_outputs(f, 3);
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 1; i <= 3; i++)
            assert_int_equal(pull_seq(f), i);
    struct outbox_state st;
    outbox_get_state(f->outbox, &st);
    struct control m = {.type = CONTROL_COMMIT, .commit = {STR("e1"), st.epoch, 2, {0}}};
    send_control(f, &m);
    uint64_t seq = 0;
    for (int i = 0; i < 20 && seq != 3; i++)
        seq = pull_seq(f); /* what was on its way, then only the third */
    assert_int_equal(pull_seq(f), 3);
}

static void test_what_is_held_is_not_sent_again(void **state)
{
    struct fixture *f = *state;
    receive_type(f, CONTROL_HELLO);
    put_outputs(f, 6);
    struct outbox_state st;
    outbox_get_state(f->outbox, &st);
    const struct control m = {.type = CONTROL_COMMIT,
                              .commit = {STR("e1"), st.epoch, 1, STR("3-4,6-6")}};
    for (uint64_t i = 1; i <= 6; i++)
        assert_int_equal(pull_seq(f), i);
    send_control(f, &m);
    uint64_t seq = pull_seq(f);
    while (seq == 1) { /* a rewind was quicker than the word */
        for (int i = 0; i < 5; i++)
            pull_seq(f);
        seq = pull_seq(f);
    }
    assert_int_equal(seq, 2);
    assert_int_equal(pull_seq(f), 5);
    /* Nobody says it any more: all that is above the mark comes again. */
    bool has_come[7] = {false};
    for (int i = 0; i < 40 && !(has_come[3] && has_come[4] && has_come[6]); i++)
        has_come[pull_seq(f)] = true;
    assert_true(has_come[3] && has_come[4] && has_come[6]);
    assert_false(has_come[1]);
}

static void test_desired_and_commands(void **state)
{
    struct fixture *f = *state;
    receive_type(f, CONTROL_HELLO);
    struct desired_route route = {.name = STR("d"), .n_arm = 1};
    route.arm[0] = (struct desired_arm){.name = STR("champion"), .share = 1};
    route.arm[0].revision = (struct revision){.number = 1, .route = STR("d")};
    param_set_hash(&route.arm[0].revision.params, route.arm[0].revision.hash);
    for (uint64_t v = 7; v >= 6; v--) { /* an older document changes nothing */
        struct control m = {.type = CONTROL_DESIRED,
                            .desired = {.version = v, .n_route = 1, .route = &route}};
        send_control(f, &m);
    }
    struct control command = {.type = CONTROL_COMMAND, .command = {.id = 4, .name = STR("drain")}};
    send_control(f, &command);
    struct control result = receive_type(f, CONTROL_RESULT);
    assert_true(result.result.id == 4 && result.result.is_ok);
    assert_str(result.result.message, "done");
    pthread_mutex_lock(&f->lock);
    assert_int_equal(f->desired, 7);
    pthread_mutex_unlock(&f->lock);
    wire_set_applied(f->wire, 7);
    assert_int_equal(receive_type(f, CONTROL_APPLIED).applied.desired_version, 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hello_and_heartbeat),       TEST(test_outputs_once_when_committed),
        TEST(test_uncommitted_is_sent_again), TEST(test_what_is_held_is_not_sent_again),
        TEST(test_desired_and_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
