/* Many requests on one thread against a server on loopback: each is answered once, slow ones hold
 * up no other, what is left at the end is cancelled. */
#include "common/test.h"

#include "common/clock.h"
#include "common/http_multi.h"
#include "common/http_server.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 40, PATIENCE_MS = 10000 };

struct fixture {
    struct http_server *server;
    struct http_multi *multi;
    pthread_t thread;
    char url[64], hold_url[64];
    uint32_t ok, timeouts, cancelled, other;
};

static void on_echo(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_reply(r, 200, "text/plain", http_request_body(r));
}

static void leave(void *ctx)
{
    http_stream_end(ctx);
}

static void on_hold(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_stream_on_close(r, leave, r);
    http_stream_begin(r, 200, "text/plain");
}

static void *run_server(void *ctx)
{
    http_server_run(ctx);
    return NULL;
}

static int set_up(void **state)
{
    static struct fixture f;
    struct err e;
    const struct http_server_config c = {.host = "127.0.0.1",
                                         .max_body_bytes = 1000,
                                         .max_header_bytes = 4096,
                                         .max_connections = 100,
                                         .idle_timeout_ms = 30000,
                                         .slow_reader_bytes = 256 * 1024};
    memset(&f, 0, sizeof f);
    assert_ok(http_server_open(&f.server, &c, &e), &e);
    assert_ok(http_server_route(f.server, "POST", "/echo", on_echo, &f, &e), &e);
    assert_ok(http_server_route(f.server, "POST", "/hold", on_hold, &f, &e), &e);
    assert_ok(http_multi_open(&f.multi, &e), &e);
    snprintf(f.url, sizeof f.url, "http://127.0.0.1:%u/echo", http_server_port(f.server));
    snprintf(f.hold_url, sizeof f.hold_url, "http://127.0.0.1:%u/hold", http_server_port(f.server));
    pthread_create(&f.thread, NULL, run_server, f.server);
    *state = &f;
    return 0;
}

static void stop_now(void *ctx)
{
    http_server_stop(ctx, 50);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    http_multi_close(f->multi);
    http_server_post(f->server, stop_now, f->server);
    pthread_join(f->thread, NULL);
    http_server_close(f->server);
    return 0;
}

static void count(void *ctx, int rc, const struct http_result *r, const struct err *e)
{
    struct fixture *f = ctx;
    if (rc == ERR_OK && r->status == 200 && str_eq_c(buf_str(&r->body), "hello"))
        f->ok++;
    else if (rc == ERR_TIMEOUT)
        f->timeouts++;
    else if (rc == ERR_CANCELLED)
        f->cancelled++;
    else
        f->other++;
    assert_true(rc == ERR_OK || e->msg[0]);
}

static void start(struct fixture *f, const char *url, uint32_t timeout_ms)
{
    struct err e;
    const struct http_call call = {.url = url, .body = STR("hello"), .timeout_ms = timeout_ms};
    assert_ok(http_multi_start(f->multi, &call, count, f, &e), &e);
}

static void poll_until(struct fixture *f, const uint32_t *counter, uint32_t wanted)
{
    struct mono begin = clock_mono(&CLOCK_REAL);
    while (*counter < wanted) {
        http_multi_poll(f->multi, NULL, 0, 100);
        assert_true(mono_since_us(begin, clock_mono(&CLOCK_REAL)) < PATIENCE_MS * 1000ull);
    }
}

static void test_slow_ones_hold_up_no_other(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < MANY; i++) {
        start(f, f->hold_url, 60000);
        start(f, f->url, 60000);
    }
    poll_until(f, &f->ok, MANY);
    assert_int_equal(f->timeouts + f->cancelled + f->other, 0);
    http_multi_close(f->multi);
    f->multi = NULL;
    assert_int_equal(f->cancelled, MANY);
    assert_int_equal(f->ok, MANY);
}

static void test_deadline_and_refused(void **state)
{
    struct fixture *f = *state;
    start(f, f->hold_url, 50);
    start(f, "http://127.0.0.1:1/", 5000);
    start(f, "file:///etc/passwd", 5000);
    poll_until(f, &f->timeouts, 1);
    poll_until(f, &f->other, 2);
}

static void *wake_later(void *ctx)
{
    usleep(20000);
    http_multi_wake(ctx);
    return NULL;
}

static void test_wakes_for_a_thread_and_a_descriptor(void **state)
{
    struct fixture *f = *state;
    struct mono begin = clock_mono(&CLOCK_REAL);
    pthread_t t;
    int pair[2];
    pthread_create(&t, NULL, wake_later, f->multi);
    http_multi_poll(f->multi, NULL, 0, PATIENCE_MS);
    pthread_join(t, NULL);
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(write(pair[1], "x", 1), 1);
    http_multi_poll(f->multi, &(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, PATIENCE_MS);
    assert_true(mono_since_us(begin, clock_mono(&CLOCK_REAL)) < PATIENCE_MS * 1000ull);
    close(pair[0]);
    close(pair[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slow_ones_hold_up_no_other),
        TEST(test_deadline_and_refused),
        TEST(test_wakes_for_a_thread_and_a_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
