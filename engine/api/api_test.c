/* The API over real sockets with a generator that does as told: says a text, stays silent, fails,
 * has no room. The loop has its own thread, as in the engine. */
#include "common/test.h"

#include "common/http_client.h"
#include "engine/api/api.h"
#include "engine/text/fixture_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

enum mode { SAY, SILENT, FAIL, LOSE_DEVICE };
enum { MAX_REQUESTS = 16, CONTEXT = 256 };

struct generator {
    int fd;
    _Atomic int mode;
    _Atomic uint32_t room, n_cancelled;
    const char *text; /* SAY: a token a byte */
    struct {
        struct gen_request request;
        bool is_live, is_cancelled;
    } slot[MAX_REQUESTS];
};

static void wake(struct generator *g)
{
    (void)!write(g->fd, &(uint64_t){1}, 8);
}

static int told_submit(struct generator *g, const struct gen_request *r, struct gen_handle *out,
                       struct err *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_REQUESTS; i++)
        n += g->slot[i].is_live;
    for (uint32_t i = 0; i < MAX_REQUESTS && n < g->room; i++) {
        if (g->slot[i].is_live)
            continue;
        g->slot[i].request = *r;
        g->slot[i].is_live = true;
        g->slot[i].is_cancelled = false;
        out->v = i + 1;
        wake(g);
        return ERR_OK;
    }
    return err_set(e, ERR_BUSY, "no room");
}

static void told_cancel(struct generator *g, struct gen_handle h)
{
    if (h.v == 0 || !g->slot[h.v - 1].is_live)
        return;
    g->slot[h.v - 1].is_cancelled = true;
    wake(g);
}

static void say(struct generator *g, const struct gen_request *r)
{
    const struct gen_top top[] = {{'a', -1}, {'b', -2}};
    size_t n = strlen(g->text), max = (size_t)r->params.v[PARAM_MAX_NEW_TOKENS];
    for (size_t i = 0; i < n && i < max; i++) {
        struct gen_event ev = {.type = GEN_TOKEN,
                               .token = (unsigned char)g->text[i],
                               .logprob = -0.5f,
                               .top = top,
                               .n_top = r->n_top < 2 ? r->n_top : 2};
        r->on_event(r->ctx, &ev);
    }
    struct gen_event end = {.type = GEN_END, .finish = n > max ? GEN_LENGTH : GEN_STOP};
    r->on_event(r->ctx, &end);
}

static void told_drain(struct generator *g)
{
    (void)!read(g->fd, &(uint64_t){0}, 8);
    for (uint32_t i = 0; i < MAX_REQUESTS; i++) {
        const struct gen_request *r = &g->slot[i].request;
        struct gen_event ev = {.type = GEN_END, .finish = GEN_CANCELLED};
        bool is_cancelled = g->slot[i].is_cancelled;
        if (!g->slot[i].is_live || (g->mode == SILENT && !is_cancelled))
            continue;
        g->slot[i].is_live = false;
        if (!is_cancelled && g->mode == SAY) {
            say(g, r);
            continue;
        }
        g->n_cancelled += is_cancelled;
        if (!is_cancelled) {
            ev.finish = GEN_ERROR;
            (void)err_set(&ev.err, g->mode == FAIL ? ERR_BUG : ERR_DEVICE, "the device is gone");
        }
        r->on_event(r->ctx, &ev);
    }
}

static const struct generator_ops TOLD = {
    .name = "told", .submit = told_submit, .cancel = told_cancel, .drain = told_drain};

struct fixture_api {
    struct generator generator;
    struct gguf *file;
    struct tokenizer *tokenizer;
    struct metrics *metrics;
    struct outbox *outbox;
    struct http_server *server;
    struct http_client *client;
    struct api *api;
    pthread_t thread;
    bool is_ended;
    char url[64], dir[40];
    struct arena arena;
    struct milepost_config config;
};

static void on_tokens(int fd, void *ctx)
{
    (void)fd;
    told_drain(ctx);
}

static void on_records(int fd, void *ctx)
{
    (void)fd;
    outbox_drain(ctx);
}

static void *run_server(void *server)
{
    http_server_run(server);
    return NULL;
}

static void open_parts(struct fixture_api *f)
{
    struct err e;
    struct fixture file = {.control = {"<|im_start|>", "<|im_end|>"}, .jinja = STR("<|im_start|>")};
    char path[64];
    struct route_table *table;
    f->file = fixture_open(&file);
    assert_ok(tokenizer_open(&f->tokenizer, f->file, &e), &e);
    assert_ok(milepost_config_load(NULL, NULL, 0, &f->arena, &f->config, &e), &e);
    assert_ok(route_table_from_config(&table, &f->config, &e), &e);
    strncpy(f->dir, "/tmp/milepost_api_XXXXXX", sizeof f->dir - 1);
    assert_non_null(mkdtemp(f->dir));
    snprintf(path, sizeof path, "%s/outbox", f->dir);
    const struct outbox_config oc = {.path = path, .max_bytes = 1 << 24, .engine = STR("e1")};
    assert_ok(outbox_open(&f->outbox, &oc, &e), &e);
    const struct http_server_config hc = {.host = "127.0.0.1",
                                          .max_body_bytes = 1 << 20,
                                          .max_header_bytes = 8192,
                                          .max_connections = 32,
                                          .idle_timeout_ms = 10000,
                                          .slow_reader_bytes = 1 << 20,
                                          .error_body = api_error_body};
    assert_ok(http_server_open(&f->server, &hc, &e), &e);
    struct api_config ac = {.clock = &CLOCK_REAL,
                            .server = f->server,
                            .ops = &TOLD,
                            .generator = &f->generator,
                            .tokenizer = f->tokenizer,
                            .file = f->file,
                            .outbox = f->outbox,
                            .metrics = f->metrics,
                            .model = STR("m"),
                            .weights = STR("w"),
                            .max_context = CONTEXT,
                            .keep_alive_ms = 20};
    assert_ok(chat_template_find(&ac.chat_template, f->file, "chatml", &e), &e);
    assert_ok(api_open(&f->api, &ac, &e), &e);
    api_set_table(f->api, table);
    assert_ok(http_server_watch(f->server, f->generator.fd, on_tokens, &f->generator, &e), &e);
    assert_ok(http_server_watch(f->server, outbox_fd(f->outbox), on_records, f->outbox, &e), &e);
    assert_ok(http_client_open(&f->client, &e), &e);
}

static int set_up(void **state)
{
    struct fixture_api *f = calloc(1, sizeof *f);
    assert_non_null(f);
    arena_init(&f->arena, 4 * MiB);
    f->metrics = metrics_new();
    f->generator = (struct generator){
        .fd = eventfd(0, EFD_NONBLOCK), .mode = SAY, .room = MAX_REQUESTS, .text = "Hi"};
    open_parts(f);
    snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", http_server_port(f->server));
    pthread_create(&f->thread, NULL, run_server, f->server);
    *state = f;
    return 0;
}

static void stop_now(void *server)
{
    http_server_stop(server, 100);
}

/* In the engine's order: every job ends before the API closes, none is left over. */
static int tear_down(void **state)
{
    struct fixture_api *f = *state;
    if (!f->is_ended) {
        assert_true(http_server_post(f->server, stop_now, f->server));
        pthread_join(f->thread, NULL);
    }
    api_detach(f->api);
    for (uint64_t i = 1; i <= MAX_REQUESTS; i++)
        told_cancel(&f->generator, (struct gen_handle){i});
    told_drain(&f->generator);
    outbox_close(f->outbox);
    assert_int_equal(api_open_jobs(f->api), 0);
    api_close(f->api);
    http_server_close(f->server);
    http_client_close(f->client);
    tokenizer_close(f->tokenizer);
    gguf_close(f->file);
    metrics_free(f->metrics);
    arena_free(&f->arena);
    close(f->generator.fd);
    static const char *const FILES[] = {"outbox", "outbox-wal", "outbox-shm"};
    char path[80];
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, FILES[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

#define ASK(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]" more "}"

static int post(struct fixture_api *f, const char *path, const char *body, struct http_result *r)
{
    struct err e;
    const char *url = arena_printf(&f->arena, "%s%s", f->url, path).p;
    const struct http_call call = {.url = url, .body = str_from(body)};
    assert_ok(http_client_call(f->client, &call, r, &e), &e);
    return r->status;
}

static int count(struct str text, const char *needle)
{
    int n = 0;
    for (ptrdiff_t at = 0; (at = str_find(text, str_from(needle), (size_t)at)) >= 0; at++)
        n++;
    return n;
}

#define assert_has(r, text) assert_true(count(buf_str(&(r)->body), text) > 0)

static void test_a_reply_and_its_record(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    struct outbox_reader *reader;
    struct buf row;
    struct err e;
    uint64_t seq = 0;
    assert_int_equal(post(f, "/v1/chat/completions", ASK(",\"n\":2,\"user\":\"u\""), &r), 200);
    assert_int_equal(count(buf_str(&r.body), "\"content\":\"Hi\""), 2);
    assert_has(&r, "\"completion_tokens\":4");
    assert_has(&r, "\"system_fingerprint\":\"milepost-r0-champion\"");
    assert_str(http_result_header(&r, "X-Milepost-Route"), "default");
    http_result_free(&r);
    /* Stored before it was answered. */
    buf_init(&row, 1 * MiB);
    assert_ok(outbox_reader_open(&reader, f->outbox, &e), &e);
    for (uint64_t i = 1; i <= 2; i++) {
        seq = i;
        assert_ok(outbox_read(reader, &seq, &row, &e), &e);
        assert_int_equal(seq, i);
        assert_int_equal(count(buf_str(&row), "\"text\":\"Hi\""), 1);
        assert_int_equal(count(buf_str(&row), "\"unit\":\"u\""), 1);
    }
    seq = 3;
    assert_int_equal(outbox_read(reader, &seq, &row, &e), ERR_NOT_FOUND);
    outbox_reader_close(reader);
    buf_free(&row);
}

static void test_stream_and_stop_string(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    f->generator.text = "one STOP two";
    post(f, "/v1/completions", "{\"prompt\":\"x\",\"stop\":\"STOP\",\"stream\":true}", &r);
    assert_int_equal(r.status, 200);
    assert_has(&r, "\"text\":\" \"");
    assert_int_equal(count(buf_str(&r.body), "\"finish_reason\":null"), 8); /* one a token */
    assert_int_equal(count(buf_str(&r.body), "STOP"), 0);
    assert_int_equal(count(buf_str(&r.body), "two"), 0);
    assert_int_equal(count(buf_str(&r.body), "\"finish_reason\":\"stop\""), 1);
    assert_true(str_ends(buf_str(&r.body), STR("data: [DONE]\n\n")));
    http_result_free(&r);
    post(f, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":3}", &r);
    assert_has(&r, "\"text\":\"one\"");
    assert_has(&r, "\"finish_reason\":\"length\"");
    http_result_free(&r);
}

static bool leave_at_comment(void *ctx, struct str piece)
{
    _Atomic int *n = ctx;
    *n += count(piece, ": waiting\n\n");
    return *n < 2;
}

static void test_a_silent_stream_gets_comments_until_its_client_leaves(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    struct err e;
    _Atomic int n = 0;
    f->generator.mode = SILENT;
    const char *url = arena_printf(&f->arena, "%s/v1/chat/completions", f->url).p;
    const struct http_call call = {.url = url,
                                   .body = STR(ASK(",\"stream\":true,\"n\":3")),
                                   .on_data = leave_at_comment,
                                   .ctx = &n};
    assert_int_equal(http_client_call(f->client, &call, &r, &e), ERR_CANCELLED);
    assert_int_equal(n, 2);
    for (int i = 0; i < 200 && f->generator.n_cancelled < 3; i++)
        usleep(10000);
    assert_int_equal(f->generator.n_cancelled, 3);
}

static void test_a_generation_that_fails(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    f->generator.mode = FAIL;
    assert_int_equal(post(f, "/v1/chat/completions", ASK(""), &r), 500);
    assert_has(&r, "\"message\":\"the device is gone\"");
    http_result_free(&r);
    assert_int_equal(post(f, "/v1/chat/completions", ASK(",\"stream\":true"), &r), 200);
    assert_has(&r, "data: {\"error\":{\"message\":\"the device is gone\"");
    assert_has(&r, "data: [DONE]");
    http_result_free(&r);
}

static void test_a_lost_device_ends_the_loop(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    f->generator.mode = LOSE_DEVICE;
    assert_int_equal(post(f, "/v1/chat/completions", ASK(""), &r), 500);
    http_result_free(&r);
    pthread_join(f->thread, NULL); /* without anybody asking it to */
    assert_true(api_is_device_lost(f->api));
    f->is_ended = true;
}

static void test_no_room_for_all_choices(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    f->generator.room = 2;
    f->generator.mode = SILENT;
    assert_int_equal(post(f, "/v1/chat/completions", ASK(",\"n\":4"), &r), 503);
    assert_str(http_result_header(&r, "Retry-After"), "1");
    http_result_free(&r);
    for (int i = 0; i < 200 && f->generator.n_cancelled < 2; i++)
        usleep(10000);
    f->generator.mode = SAY;
    assert_int_equal(post(f, "/v1/chat/completions", ASK(",\"n\":2"), &r), 200);
    http_result_free(&r);
}

enum { LARGE = 300 * 1024 };

/* A chat of LARGE bytes: with spaces between the values it is short all the same. */
static const char *large_body(struct fixture_api *f, const char *text)
{
    struct str begin =
        arena_printf(&f->arena, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}", text);
    char *body = arena_array(&f->arena, begin.n + LARGE + 3, 1);
    assert_non_null(body);
    memcpy(body, begin.p, begin.n);
    memset(body + begin.n, ' ', LARGE);
    memcpy(body + begin.n + LARGE, "]}", 3);
    return body;
}

/* Read on another thread, answered as a small one is. */
static void test_large_bodies(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    assert_int_equal(post(f, "/v1/chat/completions", large_body(f, "q"), &r), 200);
    assert_has(&r, "\"content\":\"Hi\"");
    http_result_free(&r);
    assert_int_equal(post(f, "/v1/chat/completions", large_body(f, "\\x"), &r), 400);
    assert_has(&r, "not valid JSON");
    http_result_free(&r);
}

/* The loop ends while a body is being read: nothing is left over (see tear_down). */
static void test_stop_while_a_large_body_is_read(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    struct err e;
    const char *url = arena_printf(&f->arena, "%s/v1/chat/completions", f->url).p;
    f->generator.mode = SILENT;
    const struct http_call call = {
        .url = url, .body = str_from(large_body(f, "q")), .timeout_ms = 1};
    assert_int_not_equal(http_client_call(f->client, &call, &r, &e), ERR_OK);
    http_result_free(&r);
}

static void stop_admitting(void *api)
{
    api_set_admitting(api, false);
}

static void test_not_admitting(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    http_server_post(f->server, stop_admitting, f->api);
    for (int i = 0, status = 0; i < 200 && status != 503; i++) {
        status = post(f, "/v1/chat/completions", ASK(""), &r);
        http_result_free(&r);
        assert_true(i < 199);
    }
    struct err e;
    const char *url = arena_printf(&f->arena, "%s/health", f->url).p;
    const struct http_call call = {.url = url};
    assert_ok(http_client_call(f->client, &call, &r, &e), &e);
    assert_int_equal(r.status, 503);
    http_result_free(&r);
}

static void test_prompts_that_do_not_fit(void **state)
{
    struct fixture_api *f = *state;
    struct http_result r;
    struct buf body;
    buf_init(&body, 64 * KiB);
    for (int more = -1; more <= 0; more++) {
        buf_reset(&body);
        buf_put_c(&body, "{\"prompt\":\"");
        for (int i = 0; i < CONTEXT + more; i++)
            buf_put_char(&body, 'x');
        buf_put_c(&body, "\",\"max_tokens\":50}");
        buf_put_char(&body, '\0');
        post(f, "/v1/completions", body.p, &r);
        assert_int_equal(r.status, more < 0 ? 200 : 400);
        if (more < 0) /* room for one token: the limit is lowered to it, and shown */
            assert_true(
                count(http_result_header(&r, "X-Milepost-Params"), "\"max_new_tokens\":1}") == 1);
        else
            assert_has(&r, "\"code\":\"context_length_exceeded\"");
        http_result_free(&r);
    }
    buf_free(&body);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_reply_and_its_record),
        TEST(test_stream_and_stop_string),
        TEST(test_a_silent_stream_gets_comments_until_its_client_leaves),
        TEST(test_a_generation_that_fails),
        TEST(test_a_lost_device_ends_the_loop),
        TEST(test_no_room_for_all_choices),
        TEST(test_not_admitting),
        TEST(test_large_bodies),
        TEST(test_stop_while_a_large_body_is_read),
        TEST(test_prompts_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
