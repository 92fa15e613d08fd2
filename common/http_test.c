/* Server and client against each other on loopback, and raw sockets for what a good client would
 * not do. */
#include "common/test.h"

#include "common/http_client.h"
#include "common/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
    struct http_server *server;
    struct http_client *client;
    pthread_t thread;
    char url[64];
    struct http_request *held; /* loop thread */
    _Atomic int closed, posted;
    _Atomic bool slow_cut;
    _Atomic long switches;
};

static void on_echo(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct str q = http_request_query(r, "q");
    struct str text = arena_printf(http_request_arena(r), "%s " STR_FMT " [" STR_FMT "] " STR_FMT,
                                   http_request_method(r), STR_ARG(http_request_path(r)),
                                   STR_ARG(q), STR_ARG(http_request_body(r)));
    http_reply_header(r, "X-Test", STR("yes"));
    http_reply(r, 200, "text/plain", text);
}

static void on_stream(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_stream_begin(r, 200, "text/event-stream");
    for (int i = 0; i < 3; i++)
        assert_true(http_stream_send(r, STR("data: x\n\n")));
    http_stream_end(r);
}

static void count_close(void *ctx)
{
    struct fixture *f = ctx;
    f->closed++;
}

static void on_hold(struct http_request *r, void *ctx)
{
    struct fixture *f = ctx;
    f->held = r;
    http_stream_on_close(r, count_close, f);
    if (http_request_query(r, "begin").p)
        http_stream_begin(r, 200, "text/event-stream");
}

static void release_held(void *ctx)
{
    struct fixture *f = ctx;
    if (f->held)
        http_stream_end(f->held);
    f->held = NULL;
    f->posted++;
}

static void on_flood(struct http_request *r, void *ctx)
{
    struct fixture *f = ctx;
    static char block[65536];
    memset(block, 'x', sizeof block);
    http_stream_begin(r, 200, "text/plain");
    int sent = 0;
    while (sent < 2000 && http_stream_send(r, (struct str){block, sizeof block}))
        sent++;
    f->slow_cut = sent < 2000;
    http_stream_end(r);
}

static void *run_server(void *ctx)
{
    http_server_run(((struct fixture *)ctx)->server);
    return NULL;
}

static struct http_server_config test_config(void)
{
    return (struct http_server_config){.host = "127.0.0.1",
                                       .max_body_bytes = 1000,
                                       .max_header_bytes = 4096,
                                       .max_connections = 8,
                                       .idle_timeout_ms = 10000,
                                       .request_ms = 700,
                                       .slow_reader_bytes = 256 * 1024};
}

static int set_up_with(void **state, struct http_server_config c)
{
    static struct fixture f;
    struct err e;
    memset(&f, 0, sizeof f);
    assert_ok(http_server_open(&f.server, &c, &e), &e);
    assert_ok(http_server_route(f.server, NULL, "/echo/*", on_echo, &f, &e), &e);
    assert_ok(http_server_route(f.server, "POST", "/post", on_echo, &f, &e), &e);
    assert_ok(http_server_route(f.server, "GET", "/stream", on_stream, &f, &e), &e);
    assert_ok(http_server_route(f.server, "GET", "/hold", on_hold, &f, &e), &e);
    assert_ok(http_server_route(f.server, "GET", "/flood", on_flood, &f, &e), &e);
    assert_ok(http_client_open(&f.client, &e), &e);
    snprintf(f.url, sizeof f.url, "http://127.0.0.1:%u", http_server_port(f.server));
    pthread_create(&f.thread, NULL, run_server, &f);
    *state = &f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, test_config());
}

/* What is silent stays, however slow the machine. */
static int set_up_patient(void **state)
{
    struct http_server_config c = test_config();
    c.request_ms = 60000;
    return set_up_with(state, c);
}

static void stop_now(void *ctx)
{
    http_server_stop(ctx, 50);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    assert_true(http_server_post(f->server, stop_now, f->server));
    pthread_join(f->thread, NULL);
    http_server_close(f->server);
    http_client_close(f->client);
    return 0;
}

static int get(struct fixture *f, const char *path, struct str body, struct http_result *r,
               struct err *e)
{
    char url[256];
    snprintf(url, sizeof url, "%s%s", f->url, path);
    struct http_call call = {.url = url, .body = body, .timeout_ms = 5000};
    return http_client_call(f->client, &call, r, e);
}

static void wait_for(_Atomic int *what, int value)
{
    for (int i = 0; i < 300 && *what < value; i++)
        usleep(10000);
    assert_int_equal(*what, value);
}

static void test_replies(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    for (int i = 0; i < 3; i++) { /* one connection, kept alive */
        assert_ok(get(f, "/echo/a%20b?q=1%2B2", STR(""), &r, &e), &e);
        assert_int_equal(r.status, 200);
        assert_str(buf_str(&r.body), "GET /echo/a b [1+2] ");
        assert_str(http_result_header(&r, "x-test"), "yes");
        http_result_free(&r);
    }
    assert_ok(get(f, "/post", STR("{}"), &r, &e), &e);
    assert_str(buf_str(&r.body), "POST /post [] {}");
    http_result_free(&r);
    assert_ok(get(f, "/post", STR(""), &r, &e), &e);
    assert_int_equal(r.status, 405);
    http_result_free(&r);
    assert_ok(get(f, "/none", STR(""), &r, &e), &e);
    assert_int_equal(r.status, 404);
    http_result_free(&r);
    assert_ok(get(f, "/stream", STR(""), &r, &e), &e);
    assert_str(buf_str(&r.body), "data: x\n\ndata: x\n\ndata: x\n\n");
    http_result_free(&r);
}

static void test_large_body_is_413(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    static char big[200000];
    memset(big, ' ', sizeof big);
    assert_ok(get(f, "/post", (struct str){big, sizeof big}, &r, &e), &e);
    assert_int_equal(r.status, 413);
    http_result_free(&r);
}

static int raw_connect(struct fixture *f, const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(http_server_port(f->server)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

static void test_client_that_leaves(void **state)
{
    struct fixture *f = *state;
    const char *paths[] = {"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n",
                           "GET /hold?begin=1 HTTP/1.1\r\nHost: x\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        int fd = raw_connect(f, paths[i]);
        usleep(50000);
        assert_int_equal(f->closed, i);
        close(fd);
        wait_for(&f->closed, i + 1); /* once, without anything being sent */
        assert_true(http_server_post(f->server, release_held, f));
        wait_for(&f->posted, i + 1);
        assert_int_equal(f->closed, i + 1);
    }
}

/* What the server sends until it closes, or within the time. */
static struct str raw_read(int fd, char *out, size_t cap, int ms)
{
    struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    size_t n = 0;
    ssize_t got;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    while (n < cap && (got = recv(fd, out + n, cap - n, 0)) > 0)
        n += (size_t)got;
    return (struct str){out, n};
}

static void test_methods(void **state)
{
    static const struct {
        const char *request, *status, *header;
    } ROWS[] = {
        {"HEAD /stream", "HTTP/1.1 200", "text/event-stream"},
        {"HEAD /echo/a", "HTTP/1.1 200", "Content-Length: 16\r\n"}, /* "HEAD /echo/a [] " */
        {"GET /post", "HTTP/1.1 405", "Allow: POST\r\n"},
        {"HEAD /post", "HTTP/1.1 405", "Allow: POST\r\n"},
        {"POST /hold", "HTTP/1.1 405", "Allow: GET, HEAD\r\n"},
        {"PATCH /post", "HTTP/1.1 405", "application/json"},
        {"TRACE /post", "HTTP/1.1 405", "application/json"},
        {"HEAD /none", "HTTP/1.1 404", "Content-Length: "},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        char text[200], got[4096];
        snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                 ROWS[i].request);
        int fd = raw_connect(f, text);
        struct str reply = raw_read(fd, got, sizeof got, 3000);
        close(fd);
        assert_true(str_starts(reply, str_from(ROWS[i].status)));
        assert_true(str_find(reply, str_from(ROWS[i].header), 0) > 0);
        if (str_starts(str_from(ROWS[i].request), STR("HEAD")))
            assert_true(str_ends(reply, STR("\r\n\r\n"))); /* no body */
    }
}

/* A client that leaves is seen behind bytes it sent that nobody reads, be they few or many. */
static void test_client_that_leaves_bytes_behind(void **state)
{
    struct fixture *f = *state;
    static char block[65536];
    for (int i = 0; i < 2; i++) {
        int fd = raw_connect(f, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\nmore and more");
        for (int k = 0; k < 100 * i; k++)
            (void)!send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        usleep(50000);
        close(fd);
        wait_for(&f->closed, i + 1);
        assert_true(http_server_post(f->server, release_held, f));
        wait_for(&f->posted, i + 1);
    }
}

static void send_to_held(void *ctx)
{
    struct fixture *f = ctx;
    f->slow_cut = !http_stream_send(f->held, STR("data: x\n\n"));
    f->posted++;
}

static void test_client_that_sends_during_a_stream(void **state)
{
    struct fixture *f = *state;
    static char block[65536];
    size_t sent = 0;
    int fd = raw_connect(f, "GET /hold?begin=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    usleep(50000);
    for (int i = 0; i < 1000; i++) { /* 64 MB, were they taken */
        ssize_t n = send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            usleep(1000);
        else
            sent += (size_t)n;
    }
    assert_true(sent < sizeof block * 500); /* the kernel's buffers, and our limit */
    assert_true(http_server_post(f->server, send_to_held, f));
    wait_for(&f->posted, 1);
    assert_true(f->slow_cut);
    close(fd);
}

/* No request in time: nothing sent, headers or a body that drip, silence after an answer. */
static void test_silent_connections_are_cut(void **state)
{
    static const char *const ROWS[] = {
        "", "GET /echo/x HTTP/1.1\r\nX: ", "POST /post HTTP/1.1\r\nContent-Length: 900\r\n\r\n",
        "GET /echo/x HTTP/1.1\r\nHost: x\r\n\r\n"};
    enum { N = sizeof ROWS / sizeof *ROWS };
    struct fixture *f = *state;
    int fd[N];
    char got[1024];
    for (int i = 0; i < N; i++)
        fd[i] = raw_connect(f, ROWS[i]);
    int held = raw_connect(f, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"); /* being answered: stays */
    for (int k = 0; k < 15; k++) {                                      /* 1.5 s */
        usleep(100000);
        for (int i = 1; i < 3; i++)
            (void)!send(fd[i], "a", 1, MSG_NOSIGNAL);
    }
    for (int i = 0; i < N; i++) {
        struct timeval tv = {30, 0};
        setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        ssize_t n;
        while ((n = recv(fd[i], got, sizeof got, 0)) > 0)
            ;
        assert_true(n == 0 || errno == ECONNRESET); /* not a time-out */
        close(fd[i]);
    }
    assert_int_equal(f->closed, 0);
    close(held);
    wait_for(&f->closed, 1);
    assert_true(http_server_post(f->server, release_held, f));
    wait_for(&f->posted, 1);
}

static void read_switches(void *ctx)
{
    struct fixture *f = ctx;
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    f->switches = u.ru_nvcsw;
    f->posted++;
}

/* Once the connections there were have been counted out, the loop waits for nothing but events. */
static void test_an_unused_server_sleeps(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++)
        close(raw_connect(f, "GET /echo/x HTTP/1.1\r\nHost: x\r\n\r\n"));
    usleep(400000);
    long woken = 100, before = 0;
    for (int i = 0; i < 20 && woken > 2; i++) { /* a busy machine: as soon as it is so */
        assert_true(http_server_post(f->server, read_switches, f));
        wait_for(&f->posted, i + 1);
        woken = i ? f->switches - before : woken;
        before = f->switches;
        usleep(600000);
    }
    assert_in_range(woken, 1, 2); /* the post's own */
}

/* Far beyond the limit nothing is accepted; the silent ones are cut and then all goes on. */
static void test_crowd_of_silent_connections(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    enum { CROWD = 150 };
    int fd[CROWD];
    for (int i = 0; i < CROWD; i++)
        fd[i] = raw_connect(f, "");
    int status = 0;
    for (int i = 0; i < 50 && status != 200; i++) {
        usleep(100000);
        if (get(f, "/echo/y", STR(""), &r, &e) != ERR_OK)
            continue;
        status = r.status;
        http_result_free(&r);
    }
    assert_int_equal(status, 200);
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
}

static void test_slow_reader_is_cut(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f, "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 200 && !f->slow_cut; i++)
        usleep(10000);
    assert_true(f->slow_cut);
    close(fd);
}

static void test_too_many_connections(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    int fd[12];
    for (int i = 0; i < 12; i++)
        fd[i] = raw_connect(f, "GET /echo/x HTTP/1.1\r\nHost: x\r\n\r\n");
    int status = 200; /* until the server has taken all twelve */
    for (int i = 0; i < 100 && status != 503; i++) {
        usleep(50000);
        assert_ok(get(f, "/echo/y", STR(""), &r, &e), &e);
        status = r.status;
        http_result_free(&r);
    }
    assert_int_equal(status, 503);
    for (int i = 0; i < 12; i++)
        close(fd[i]);
    for (int i = 0; i < 100 && status == 503; i++) {
        usleep(50000);
        assert_ok(get(f, "/echo/y", STR(""), &r, &e), &e);
        status = r.status;
        http_result_free(&r);
    }
    assert_int_equal(status, 200);
}

static void test_garbage(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    const char *rows[] = {"\r\n\r\n", "GET\r\n\r\n", "BREW / HTTP/1.1\r\n\r\n",
                          "GET / HTTP/9.9\r\nContent-Length: -5\r\n\r\n",
                          "POST /post HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nx"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        close(raw_connect(f, rows[i]));
    assert_ok(get(f, "/echo/", STR(""), &r, &e), &e);
    assert_int_equal(r.status, 200);
    http_result_free(&r);
}

static void test_busy_port(void **state)
{
    struct fixture *f = *state;
    struct http_server_config c = test_config();
    struct http_server *second;
    struct err e;
    c.port = http_server_port(f->server);
    assert_int_equal(http_server_open(&second, &c, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "another port"));
}

static void test_client_errors(void **state)
{
    struct fixture *f = *state;
    struct http_result r;
    struct err e;
    struct http_call refused = {.url = "http://127.0.0.1:1/"};
    assert_int_equal(http_client_call(f->client, &refused, &r, &e), ERR_IO);
    struct http_call wrong = {.url = "file:///etc/passwd"};
    assert_int_equal(http_client_call(f->client, &wrong, &r, &e), ERR_INVALID);
    char url[128];
    snprintf(url, sizeof url, "%s/hold", f->url);
    struct http_call late = {.url = url, .timeout_ms = 100};
    assert_int_equal(http_client_call(f->client, &late, &r, &e), ERR_TIMEOUT);
    snprintf(url, sizeof url, "%s/stream", f->url);
    struct http_call large = {.url = url, .max_response_bytes = 10};
    assert_int_equal(http_client_call(f->client, &large, &r, &e), ERR_NOMEM);
}

static void test_stop_cuts_what_is_open(void **state)
{
    struct fixture *f = *state; /* tear_down stops with 50 ms of grace */
    raw_connect(f, "GET /hold?begin=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    usleep(50000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_replies),
        TEST(test_large_body_is_413),
        TEST(test_client_that_leaves),
        TEST(test_methods),
        TEST(test_client_that_leaves_bytes_behind),
        TEST(test_client_that_sends_during_a_stream),
        TEST(test_silent_connections_are_cut),
        TEST(test_an_unused_server_sleeps),
        TEST(test_crowd_of_silent_connections),
        TEST(test_slow_reader_is_cut),
        cmocka_unit_test_setup_teardown(test_too_many_connections, set_up_patient, tear_down),
        TEST(test_garbage),
        TEST(test_busy_port),
        TEST(test_client_errors),
        TEST(test_stop_cuts_what_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
