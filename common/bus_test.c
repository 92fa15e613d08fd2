/* Both transports through the same cases: every test runs on ZeroMQ and on the in-memory twin. */
#include "common/bus.h"
#include "common/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

struct world {
    int (*open)(struct bus **out, struct err *e);
    const char *address;
};

static struct world REAL = {bus_open, "tcp://127.0.0.1:*"};
static struct world MEMORY = {bus_open_memory, "ipc:///memory"};
static struct err e;

static struct bus_socket *open_socket(struct bus *b, enum bus_kind kind, const char *address,
                                      bool bind, const char *identity, int high_water)
{
    struct bus_options o = {.kind = kind,
                            .address = address,
                            .bind = bind,
                            .identity = identity,
                            .high_water = high_water};
    struct bus_socket *s;
    assert_ok(bus_socket_open(&s, b, &o, &e), &e);
    return s;
}

/* Retries while the connection is being made. */
static int send_soon(struct bus_socket *s, const char *peer, const char *text)
{
    int rc = ERR_BUSY;
    for (int i = 0; i < 500 && (rc == ERR_BUSY || rc == ERR_NOT_FOUND); i++) {
        rc = bus_send(s, str_from(peer), str_from(text), &e);
        if (rc != ERR_OK)
            usleep(10000);
    }
    return rc;
}

static void test_push_pull(void **state)
{
    struct world *w = *state;
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    struct bus_socket *pull = open_socket(b, BUS_PULL, w->address, true, NULL, 0);
    struct bus_socket *push = open_socket(b, BUS_PUSH, bus_socket_address(pull), false, NULL, 0);
    struct buf m;
    buf_init(&m, MiB);
    assert_int_equal(bus_receive(pull, 0, NULL, &m, &e), ERR_TIMEOUT);
    assert_int_equal(send_soon(push, "", "one"), ERR_OK);
    assert_int_equal(send_soon(push, "", ""), ERR_OK);
    assert_int_equal(bus_poll(&pull, 1, -1, 5000), 1);
    assert_ok(bus_receive(pull, 5000, NULL, &m, &e), &e);
    assert_str(buf_str(&m), "one");
    assert_ok(bus_receive(pull, 5000, NULL, &m, &e), &e);
    assert_int_equal(m.n, 0);
    assert_int_equal(bus_poll(&pull, 1, -1, 10), 0);
    buf_free(&m);
    bus_socket_close(push);
    bus_socket_close(pull);
    bus_close(b);
}

static void test_absent_or_full_peer_is_busy(void **state)
{
    struct world *w = *state;
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    struct bus_socket *push = open_socket(b, BUS_PUSH, w->address, true, NULL, 4);
    assert_int_equal(bus_send(push, (struct str){0}, STR("x"), &e), ERR_BUSY);
    struct bus_socket *pull = open_socket(b, BUS_PULL, bus_socket_address(push), false, NULL, 4);
    assert_int_equal(send_soon(push, "", "x"), ERR_OK);
    static char big[256 * 1024];
    memset(big, 'y', sizeof big);
    int rc = ERR_OK, sent = 0;
    while (rc == ERR_OK && sent < 10000) {
        rc = bus_send(push, (struct str){0}, (struct str){big, sizeof big}, &e);
        sent++;
    }
    assert_int_equal(rc, ERR_BUSY);
    bus_socket_close(push);
    bus_socket_close(pull);
    bus_close(b);
}

static void test_dealer_router(void **state)
{
    struct world *w = *state;
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    struct bus_socket *router = open_socket(b, BUS_ROUTER, w->address, true, NULL, 0);
    struct bus_socket *dealer =
        open_socket(b, BUS_DEALER, bus_socket_address(router), false, "engine-1", 0);
    struct buf m, peer;
    buf_init(&m, MiB);
    buf_init(&peer, KiB);
    assert_int_equal(bus_send(router, STR("nobody"), STR("x"), &e), ERR_NOT_FOUND);
    assert_int_equal(send_soon(dealer, "", "hello"), ERR_OK);
    assert_ok(bus_receive(router, 5000, &peer, &m, &e), &e);
    assert_str(buf_str(&peer), "engine-1");
    assert_str(buf_str(&m), "hello");
    assert_int_equal(send_soon(router, "engine-1", "desired"), ERR_OK);
    assert_ok(bus_receive(dealer, 5000, NULL, &m, &e), &e);
    assert_str(buf_str(&m), "desired");
    /* A restarted engine takes its identity over. */
    bus_socket_close(dealer);
    dealer = open_socket(b, BUS_DEALER, bus_socket_address(router), false, "engine-1", 0);
    assert_int_equal(send_soon(dealer, "", "again"), ERR_OK);
    assert_ok(bus_receive(router, 5000, &peer, &m, &e), &e);
    assert_int_equal(send_soon(router, "engine-1", "desired 2"), ERR_OK);
    assert_ok(bus_receive(dealer, 5000, NULL, &m, &e), &e);
    assert_str(buf_str(&m), "desired 2");
    buf_free(&m);
    buf_free(&peer);
    bus_socket_close(router);
    bus_socket_close(dealer);
    bus_close(b);
}

static void test_several_pullers_share(void **state)
{
    struct world *w = *state;
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    struct bus_socket *push = open_socket(b, BUS_PUSH, w->address, true, NULL, 0);
    struct bus_socket *pull[2];
    for (int i = 0; i < 2; i++)
        pull[i] = open_socket(b, BUS_PULL, bus_socket_address(push), false, NULL, 0);
    struct buf m;
    buf_init(&m, MiB);
    int got[2] = {0}, sent = 0;
    while ((!got[0] || !got[1]) && sent < 2000) {
        assert_int_equal(send_soon(push, "", "x"), ERR_OK);
        sent++;
        uint32_t ready = bus_poll(pull, 2, -1, 1000);
        for (int i = 0; i < 2; i++) {
            if (ready >> i & 1 && bus_receive(pull[i], 0, NULL, &m, &e) == ERR_OK)
                got[i]++;
        }
    }
    assert_true(got[0] > 0 && got[1] > 0);
    buf_free(&m);
    for (int i = 0; i < 2; i++)
        bus_socket_close(pull[i]);
    bus_socket_close(push);
    bus_close(b);
}

static void test_busy_address_says_what_to_do(void **state)
{
    struct world *w = *state;
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    struct bus_socket *first = open_socket(b, BUS_PULL, w->address, true, NULL, 0), *second;
    struct bus_options o = {.kind = BUS_PULL, .address = bus_socket_address(first), .bind = true};
    assert_int_equal(bus_socket_open(&second, b, &o, &e), ERR_IO);
    assert_non_null(strstr(e.msg, bus_socket_address(first)));
    bus_socket_close(first);
    bus_close(b);
}

static void test_foreign_addresses_need_curve(void **state)
{
    struct world *w = *state;
    static const char *const REFUSED[] = {"tcp://0.0.0.0:5551",
                                          "tcp://*:5551",
                                          "tcp://192.168.1.4:5551",
                                          "tcp://[::]:5551",
                                          "pgm://eth0;x:1",
                                          "tcp://127.0.0.1.example.org:5551",
                                          "",
                                          "127.0.0.1:5551",
                                          "tcp://127.0.0.1:1,tcp://10.0.0.1:1",
                                          "tcp://eth0;10.0.0.1:4"};
    struct bus *b;
    assert_ok(w->open(&b, &e), &e);
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        struct bus_options o = {.kind = BUS_PUSH, .address = REFUSED[i]};
        struct bus_socket *s;
        if (bus_socket_open(&s, b, &o, &e) != ERR_INVALID)
            fail_msg("'%s' was not refused", REFUSED[i]);
    }
    bus_close(b);
}

static void test_curve_keeps_strangers_out(void **state)
{
    (void)state;
    char server[2][41], client[2][41];
    zmq_curve_keypair(server[0], server[1]);
    zmq_curve_keypair(client[0], client[1]);
    struct bus *b;
    assert_ok(bus_open(&b, &e), &e);
    struct bus_options o = {.kind = BUS_PULL, .address = "tcp://0.0.0.0:*", .bind = true};
    o.security = (struct bus_security){.server_public = str_from(server[0]),
                                       .server_secret = str_from(server[1])};
    struct bus_socket *pull, *friend, *stranger;
    assert_ok(bus_socket_open(&pull, b, &o, &e), &e);
    char address[64];
    snprintf(address, sizeof address, "tcp://127.0.0.1%s", strrchr(bus_socket_address(pull), ':'));
    struct bus_options c = {.kind = BUS_PUSH, .address = address};
    assert_ok(bus_socket_open(&stranger, b, &c, &e), &e);
    c.security = (struct bus_security){.server_public = str_from(server[0]),
                                       .public_key = str_from(client[0]),
                                       .secret_key = str_from(client[1])};
    assert_ok(bus_socket_open(&friend, b, &c, &e), &e);
    assert_int_equal(send_soon(friend, "", "secret"), ERR_OK);
    assert_int_equal(bus_send(stranger, (struct str){0}, STR("forged"), &e), ERR_BUSY);
    struct buf m;
    buf_init(&m, KiB);
    assert_ok(bus_receive(pull, 5000, NULL, &m, &e), &e);
    assert_str(buf_str(&m), "secret");
    assert_int_equal(bus_receive(pull, 50, NULL, &m, &e), ERR_TIMEOUT);
    c.security.secret_key = STR("short");
    struct bus_socket *wrong;
    assert_int_equal(bus_socket_open(&wrong, b, &c, &e), ERR_INVALID);
    buf_free(&m);
    bus_socket_close(stranger);
    bus_socket_close(friend);
    bus_socket_close(pull);
    bus_close(b);
}

static void test_faults_are_seeded(void **state)
{
    (void)state;
    enum { SENT = 2000 };
    uint32_t order[2][2 * SENT], n[2] = {0};
    for (int run = 0; run < 2; run++) {
        struct bus_faults faults = {.seed = 7, .loss = 0.1, .duplicate = 0.05, .reorder = 0.2};
        struct bus *b;
        struct buf m;
        buf_init(&m, KiB);
        assert_ok(bus_open_memory(&b, &e), &e);
        bus_memory_set_faults(b, &faults);
        struct bus_socket *pull = open_socket(b, BUS_PULL, "ipc:///f", true, NULL, 2 * SENT);
        struct bus_socket *push = open_socket(b, BUS_PUSH, "ipc:///f", false, NULL, 0);
        for (uint32_t i = 0; i < SENT; i++)
            assert_ok(bus_send(push, (struct str){0}, (struct str){(char *)&i, sizeof i}, &e), &e);
        while (bus_receive(pull, 0, NULL, &m, &e) == ERR_OK)
            memcpy(&order[run][n[run]++], m.p, sizeof order[run][0]);
        buf_free(&m);
        bus_socket_close(push);
        bus_socket_close(pull);
        bus_close(b);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(order[0], order[1], n[0] * sizeof order[0][0]);
    uint32_t n_back = 0, n_twice = 0;
    for (uint32_t i = 1; i < n[0]; i++) {
        n_back += order[0][i] < order[0][i - 1];
        n_twice += order[0][i] == order[0][i - 1];
    }
    assert_in_range(n[0], SENT * 85 / 100, SENT * 105 / 100);
    assert_in_range(n_back, SENT / 20, SENT / 2);
    assert_in_range(n_twice, SENT / 50, SENT / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_push_pull, &REAL),
        cmocka_unit_test_prestate(test_push_pull, &MEMORY),
        cmocka_unit_test_prestate(test_absent_or_full_peer_is_busy, &REAL),
        cmocka_unit_test_prestate(test_absent_or_full_peer_is_busy, &MEMORY),
        cmocka_unit_test_prestate(test_dealer_router, &REAL),
        cmocka_unit_test_prestate(test_dealer_router, &MEMORY),
        cmocka_unit_test_prestate(test_several_pullers_share, &REAL),
        cmocka_unit_test_prestate(test_several_pullers_share, &MEMORY),
        cmocka_unit_test_prestate(test_busy_address_says_what_to_do, &REAL),
        cmocka_unit_test_prestate(test_busy_address_says_what_to_do, &MEMORY),
        cmocka_unit_test_prestate(test_foreign_addresses_need_curve, &REAL),
        cmocka_unit_test_prestate(test_foreign_addresses_need_curve, &MEMORY),
        cmocka_unit_test(test_curve_keeps_strangers_out),
        cmocka_unit_test(test_faults_are_seeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
