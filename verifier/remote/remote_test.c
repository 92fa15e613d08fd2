/* Lanes against a real server on loopback that is healthy, slow, failing, wrong-typed or gone, and
 * against worker processes that misbehave. Every job is done exactly once, by its deadline. */
#include "common/test.h"

#include "common/http_server.h"
#include "verifier/remote/remote.h"
#include "verifier/remote/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_JOBS = 256, WAIT_MS = 20000, HELD_MAX = 256 };
enum mode { HEALTHY, HOLD, FAIL_500, FAIL_404, WRONG_TYPE, FAIL_ONCE, LIMITED };

struct asked {
    struct remote_job job;
    struct fixture *f;
    const char *failure;
    char answer[32];
    _Atomic int times_done;
};

struct fixture {
    struct http_server *server;
    pthread_t thread;
    uint16_t port;
    char url[64];
    _Atomic int mode, n_seen, n_open, most_open;
    struct http_request *held[HELD_MAX]; /* server's thread */
    int n_held;
    struct metrics *metrics;
    struct remote *remote;
    struct remote_lane *lane;
    struct asked asked[MAX_JOBS];
    _Atomic uint32_t n_done;
    bool probe_is_right;
};

/* The server. */

static void reply(struct http_request *r, int status, const char *body)
{
    http_reply(r, status, "application/json", str_from(body));
}

static void on_held_gone(void *ctx)
{
    (void)ctx;
}

static void on_score(struct http_request *r, void *ctx)
{
    struct fixture *f = ctx;
    int n = atomic_fetch_add(&f->n_seen, 1);
    switch ((enum mode)atomic_load(&f->mode)) {
    case HEALTHY:
        http_reply(r, 200, "application/json", http_request_body(r));
        break;
    case HOLD:
        assert_true(f->n_held < HELD_MAX);
        f->held[f->n_held++] = r;
        http_stream_on_close(r, on_held_gone, f);
        atomic_fetch_add(&f->n_open, 1);
        if (f->n_open > f->most_open)
            atomic_store(&f->most_open, f->n_open);
        break;
    case FAIL_500:
        reply(r, 500, "{}");
        break;
    case FAIL_404:
        reply(r, 404, "{}");
        break;
    case WRONG_TYPE:
        reply(r, 200, "<html>");
        break;
    case LIMITED:
        reply(r, 429, "{}");
        break;
    case FAIL_ONCE:
        if (n % 2 == 0)
            reply(r, 503, "{}");
        else
            http_reply(r, 200, "application/json", http_request_body(r));
        break;
    }
}

static void release_held(void *ctx)
{
    struct fixture *f = ctx;
    for (int i = 0; i < f->n_held; i++) {
        http_stream_on_close(f->held[i], NULL, NULL);
        reply(f->held[i], 200, "\"late\"");
    }
    atomic_fetch_sub(&f->n_open, f->n_held);
    f->n_held = 0;
}

static void *run_server(void *ctx)
{
    http_server_run(ctx);
    return NULL;
}

static void stop_now(void *ctx)
{
    http_server_stop(ctx, 0);
}

static void start_server(struct fixture *f, uint16_t port)
{
    struct err e;
    const struct http_server_config c = {.host = "127.0.0.1",
                                         .port = port,
                                         .max_body_bytes = MiB,
                                         .max_header_bytes = 4096,
                                         .max_connections = 300,
                                         .idle_timeout_ms = 60000,
                                         .slow_reader_bytes = MiB};
    assert_ok(http_server_open(&f->server, &c, &e), &e);
    assert_ok(http_server_route(f->server, "POST", "/score", on_score, f, &e), &e);
    f->port = http_server_port(f->server);
    snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u/score", f->port);
    pthread_create(&f->thread, NULL, run_server, f->server);
}

static void stop_server(struct fixture *f)
{
    if (!f->server)
        return;
    http_server_post(f->server, release_held, f);
    http_server_post(f->server, stop_now, f->server);
    pthread_join(f->thread, NULL);
    http_server_close(f->server);
    f->server = NULL;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct err e;
    start_server(f, 0);
    f->metrics = metrics_new();
    assert_ok(remote_open(&f->remote, f->metrics, &e), &e);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    remote_close(f->remote);
    remote_lane_close(f->lane);
    stop_server(f);
    metrics_free(f->metrics);
    free(f);
    return 0;
}

/* The asker. */

static struct remote_lane_config lane_config(struct fixture *f)
{
    return (struct remote_lane_config){
        .kind = "test",
        .url = f->url,
        .max_answer_bytes = 4096,
        .limits = {.concurrency = 4, .queue = 64, .breaker_ms = 300, .breaker_failures = 1000}};
}

static void open_lane(struct fixture *f, const struct remote_lane_config *c)
{
    struct err e;
    assert_ok(remote_lane_open(&f->lane, c, &e), &e);
    assert_ok(remote_attach(f->remote, f->lane, STR("route/check"), &e), &e);
}

static bool read_answer(struct remote_job *job, struct str answer)
{
    struct asked *a = (struct asked *)job;
    snprintf(a->answer, sizeof a->answer, STR_FMT, STR_ARG(answer));
    return answer.n && answer.p[0] == '"';
}

static void on_done(struct remote_job *job, const char *failure)
{
    struct asked *a = (struct asked *)job;
    a->failure = failure ? failure : "";
    atomic_fetch_add(&a->times_done, 1);
    atomic_fetch_add(&a->f->n_done, 1);
}

static void ask(struct fixture *f, uint32_t first, uint32_t n, uint32_t timeout_ms)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    for (uint32_t i = first; i < first + n; i++) {
        f->asked[i].f = f;
        f->asked[i].job = (struct remote_job){.lane = f->lane,
                                              .question = STR("\"q\""),
                                              .deadline = {now.us + timeout_ms * 1000ull},
                                              .read = read_answer,
                                              .done = on_done};
        remote_ask(f->remote, &f->asked[i].job);
    }
}

static void wait_done(struct fixture *f, uint32_t n)
{
    for (int ms = 0; atomic_load(&f->n_done) < n; ms++) {
        assert_true(ms < WAIT_MS);
        usleep(1000);
    }
}

static uint32_t count(const struct fixture *f, const char *failure)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_JOBS; i++)
        n += f->asked[i].failure && strcmp(f->asked[i].failure, failure) == 0;
    return n;
}

static bool metrics_say(struct fixture *f, const char *line)
{
    struct buf text;
    buf_init(&text, MiB);
    metrics_render(f->metrics, &text);
    bool has = str_find(buf_str(&text), str_from(line), 0) >= 0;
    buf_free(&text);
    return has;
}

static void expect_metric(struct fixture *f, const char *line)
{
    for (int ms = 0; !metrics_say(f, line); ms++) {
        if (ms > WAIT_MS)
            fail_msg("metrics never said: %s", line);
        usleep(1000);
    }
}

/* One question until it is answered as wanted: a service that came back. */
static void expect_recovery(struct fixture *f, uint32_t *next)
{
    for (int ms = 0; ms < WAIT_MS; ms += 20) {
        uint32_t i = (*next)++;
        assert_true(i < MAX_JOBS);
        ask(f, i, 1, 5000);
        wait_done(f, i + 1);
        if (f->asked[i].failure[0] == '\0')
            return;
        usleep(20000);
    }
    fail_msg("no recovery");
}

static void test_answers(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    c.limits.queue = MAX_JOBS;
    open_lane(f, &c);
    ask(f, 0, MAX_JOBS, WAIT_MS);
    wait_done(f, MAX_JOBS);
    assert_int_equal(count(f, ""), MAX_JOBS);
    for (int i = 0; i < MAX_JOBS; i++) {
        assert_int_equal(f->asked[i].times_done, 1);
        assert_string_equal(f->asked[i].answer, "\"q\"");
    }
    expect_metric(f,
                  "milepost_remote_attempts_total{check=\"route/check\",outcome=\"answered\"} 256");
}

static void test_slow(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    atomic_store(&f->mode, HOLD);
    c.limits.queue = 10;
    open_lane(f, &c);
    struct mono begin = clock_mono(&CLOCK_REAL);
    ask(f, 0, 4, 400);
    for (int ms = 0; f->n_open < 4; ms++, usleep(1000))
        assert_true(ms < WAIT_MS);
    ask(f, 4, 30, 400);
    wait_done(f, 34);
    assert_true(mono_since_us(begin, clock_mono(&CLOCK_REAL)) < 10000000);
    assert_int_equal(count(f, "timeout"), 14);
    assert_int_equal(count(f, "overloaded"), 20);
    assert_true(f->most_open <= 4 + 10); /* the server still holds those that were given up */
}

static void test_retry(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    c.limits.retries = 1;
    c.limits.concurrency = 1;
    atomic_store(&f->mode, FAIL_ONCE);
    open_lane(f, &c);
    for (uint32_t i = 0; i < 3; i++) {
        ask(f, i, 1, WAIT_MS);
        wait_done(f, i + 1);
    }
    assert_int_equal(count(f, ""), 3);
    assert_int_equal(f->n_seen, 6);
    expect_metric(f, "milepost_remote_retries_total{check=\"route/check\"} 3");
    atomic_store(&f->mode, FAIL_500);
    ask(f, 3, 1, WAIT_MS);
    wait_done(f, 4);
    assert_string_equal(f->asked[3].failure, "server_error");
    assert_int_equal(f->n_seen, 8);
    atomic_store(&f->mode, FAIL_404); /* asking again cannot help */
    ask(f, 4, 1, WAIT_MS);
    wait_done(f, 5);
    atomic_store(&f->mode, LIMITED);
    ask(f, 5, 1, WAIT_MS);
    wait_done(f, 6);
    assert_string_equal(f->asked[4].failure, "request_refused");
    assert_string_equal(f->asked[5].failure, "rate_limited");
    assert_int_equal(f->n_seen, 10);
}

static void test_breaker(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    c.limits.breaker_failures = 5;
    c.limits.concurrency = 1;
    atomic_store(&f->mode, WRONG_TYPE);
    open_lane(f, &c);
    ask(f, 0, 40, WAIT_MS);
    wait_done(f, 40);
    assert_int_equal(count(f, "malformed_answer"), 5);
    assert_int_equal(count(f, "breaker_open"), 35);
    assert_int_equal(f->n_seen, 5);
    expect_metric(f, "milepost_remote_breaker_open{check=\"route/check\"} 1");
    expect_metric(f, "milepost_remote_breaker_opens_total{check=\"route/check\"} 1");
    atomic_store(&f->mode, HEALTHY);
    uint32_t next = 40;
    expect_recovery(f, &next);
    expect_metric(f, "milepost_remote_breaker_open{check=\"route/check\"} 0");
    uint32_t last = next + 20;
    ask(f, next, 20, WAIT_MS);
    wait_done(f, last);
    assert_int_equal(count(f, ""), 21);
}

static void test_dead_and_back(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    c.limits.breaker_failures = 3;
    open_lane(f, &c);
    stop_server(f);
    ask(f, 0, 20, WAIT_MS);
    wait_done(f, 20);
    assert_int_equal(count(f, "unreachable") + count(f, "breaker_open"), 20);
    assert_true(count(f, "unreachable") >= 3);
    start_server(f, f->port);
    uint32_t next = 20;
    expect_recovery(f, &next);
}

static bool probe_is_right(const void *ctx, struct str better, struct str worse, const char **why)
{
    const struct fixture *f = ctx;
    assert_true(str_eq_c(better, "\"good\"") && str_eq_c(worse, "\"bad\""));
    *why = "not_in_order";
    return f->probe_is_right;
}

static void test_self_test(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    c.limits.breaker_ms = 100;
    c.probe = (struct remote_probe){STR("\"good\""), STR("\"bad\""), probe_is_right, f};
    open_lane(f, &c);
    ask(f, 0, 1, WAIT_MS);
    wait_done(f, 1);
    assert_true(count(f, "self_test") + count(f, "breaker_open") == 1);
    expect_metric(f, "milepost_remote_self_test{check=\"route/check\"} 0");
    assert_int_equal(f->n_seen % 2, 0); /* only the two texts were asked */
    f->probe_is_right = true;
    expect_metric(f, "milepost_remote_self_test{check=\"route/check\"} 1");
    uint32_t next = 1;
    expect_recovery(f, &next);
}

static void test_stop_ends_everything(void **state)
{
    struct fixture *f = *state;
    struct remote_lane_config c = lane_config(f);
    atomic_store(&f->mode, HOLD);
    open_lane(f, &c);
    ask(f, 0, 20, 600000);
    for (int ms = 0; f->n_open < 4; ms++, usleep(1000))
        assert_true(ms < WAIT_MS);
    remote_stop(f->remote);
    assert_int_equal(f->n_done, 20);
    assert_int_equal(count(f, "shutdown"), 20);
    ask(f, 20, 1, 1000);
    assert_string_equal(f->asked[20].failure, "shutdown");
}

/* Worker processes. */

static void open_workers(struct fixture *f, const char *script, int64_t count_workers)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct workers_config w = {
        .argv = argv, .count = count_workers, .memory_mib = 1024, .max_answer_bytes = 4096};
    struct remote_lane_config c = lane_config(f);
    c.url = NULL;
    c.workers = &w;
    c.limits.concurrency = count_workers;
    open_lane(f, &c);
}

static void test_workers_answer(void **state)
{
    struct fixture *f = *state;
    open_workers(f, "exec cat", 3);
    ask(f, 0, 60, WAIT_MS);
    wait_done(f, 60);
    assert_int_equal(count(f, ""), 60);
    assert_string_equal(f->asked[59].answer, "\"q\"");
    expect_metric(f, "milepost_remote_worker_starts_total{check=\"route/check\"} 3");
}

/* A descriptor that a library forgot to close on exec is not the program's. */
static void test_workers_get_no_descriptor(void **state)
{
    struct fixture *f = *state;
    enum { LEAK = 177 };
    assert_int_equal(dup2(STDIN_FILENO, LEAK), LEAK);
    open_workers(f, "read -r line; [ -e /proc/$$/fd/177 ] && echo '\"leak\"' || echo '\"none\"'",
                 1);
    ask(f, 0, 1, WAIT_MS);
    wait_done(f, 1);
    close(LEAK);
    assert_string_equal(f->asked[0].answer, "\"none\"");
}

static void test_worker_large_question(void **state)
{
    struct fixture *f = *state;
    char *big = malloc(MiB);
    memset(big, 'x', MiB);
    open_workers(f, "while read -r line; do echo '\"ok\"'; done", 1);
    f->asked[0] = (struct asked){.f = f,
                                 .job = {.lane = f->lane,
                                         .question = {big, MiB},
                                         .deadline = {clock_mono(&CLOCK_REAL).us + 20000000},
                                         .read = read_answer,
                                         .done = on_done}};
    remote_ask(f->remote, &f->asked[0].job);
    wait_done(f, 1);
    assert_string_equal(f->asked[0].failure, "");
    free(big);
}

static void test_worker_that_dies_comes_back(void **state)
{
    struct fixture *f = *state;
    open_workers(f, "read -r line; echo \"$line\"", 1); /* one answer a life */
    for (uint32_t i = 0; i < 3; i++) {
        ask(f, i, 1, WAIT_MS);
        wait_done(f, i + 1);
        usleep(50000); /* its end is seen */
    }
    assert_int_equal(count(f, ""), 3);
}

static void test_worker_that_is_late_is_killed_with_its_children(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/milepost_workerXXXXXX", script[256];
    int fd = mkstemp(path);
    snprintf(script, sizeof script,
             "read -r line; sleep 1000 & echo $! > %s; wait; echo '\"late\"'", path);
    open_workers(f, script, 1);
    ask(f, 0, 1, 700);
    wait_done(f, 1);
    assert_string_equal(f->asked[0].failure, "timeout");
    char text[32] = "";
    assert_true(read(fd, text, sizeof text - 1) > 0);
    pid_t child = (pid_t)strtol(text, NULL, 10);
    assert_true(child > 1);
    int ms = 0;
    while (kill(child, 0) == 0 && ms++ < 5000) { /* gone, or a zombie nobody reaps here */
        char name[64], stat[256] = "";
        snprintf(name, sizeof name, "/proc/%d/stat", (int)child);
        FILE *s = fopen(name, "r");
        bool is_zombie = s && fgets(stat, sizeof stat, s) && strstr(stat, ") Z ");
        if (s)
            fclose(s);
        if (is_zombie)
            break;
        usleep(1000);
    }
    assert_true(ms < 5000);
    close(fd);
    unlink(path);
}

static void test_worker_that_talks_too_much(void **state)
{
    struct fixture *f = *state;
    open_workers(f, "while read -r line; do echo '\"a\"'; echo '\"b\"'; done", 1);
    ask(f, 0, 1, 2000);
    wait_done(f, 1);
    /* Both lines at once: refused. Or the second later: unasked, the process goes. */
    assert_true(count(f, "malformed_answer") + count(f, "") == 1);
    expect_metric(f, "milepost_remote_worker_starts_total{check=\"route/check\"} 2");
}

static void test_worker_floods(void **state)
{
    struct fixture *f = *state;
    open_workers(f, "read -r line; exec tr '\\0' x < /dev/zero", 1);
    ask(f, 0, 1, WAIT_MS);
    wait_done(f, 1);
    assert_string_equal(f->asked[0].failure, "answer_too_large");
}

static void test_worker_that_cannot_start(void **state)
{
    struct fixture *f = *state;
    open_workers(f, "exit 3", 2);
    ask(f, 0, 5, 300);
    wait_done(f, 5);
    assert_int_equal(count(f, "unavailable") + count(f, "worker_died"), 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers),
        TEST(test_slow),
        TEST(test_retry),
        TEST(test_breaker),
        TEST(test_dead_and_back),
        TEST(test_self_test),
        TEST(test_stop_ends_everything),
        TEST(test_workers_answer),
        TEST(test_workers_get_no_descriptor),
        TEST(test_worker_large_question),
        TEST(test_worker_that_dies_comes_back),
        TEST(test_worker_that_is_late_is_killed_with_its_children),
        TEST(test_worker_that_talks_too_much),
        TEST(test_worker_floods),
        TEST(test_worker_that_cannot_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
