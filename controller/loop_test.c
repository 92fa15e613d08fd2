/* The writer's loop over real sockets: a made-up engine and verifier on the other side, the HTTP
 * API before it. Every test runs the loop's turns itself, so that nothing depends on timing but the
 * arrival of messages. */
#include "controller/api.h"
#include "controller/replay.h"
#include "controller/sample_frame.h"
#include "controller/test_database.h"

#include "common/http_client.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_database database;
static struct err e;
static struct arena arena;
static struct milepost_config config;
static struct bus *bus;
static struct metrics *metrics;
static struct board *board;
static struct loop *loop;
static struct bus_socket *verifier, *engine;

static void open_loop(void)
{
    struct loop_options o = {.config = &config,
                             .database = database.path,
                             .bus = bus,
                             .scores = "tcp://127.0.0.1:*",
                             .control = "tcp://127.0.0.1:*",
                             .metrics = metrics,
                             .board = board,
                             .clock = CLOCK_REAL,
                             .version = "test"};
    assert_ok(loop_open(&loop, &o, &e), &e);
    struct bus_options v = {.kind = BUS_PUSH, .address = loop_scores_address(loop)};
    assert_ok(bus_socket_open(&verifier, bus, &v, &e), &e);
    struct bus_options g = {
        .kind = BUS_DEALER, .address = loop_control_address(loop), .identity = "e1"};
    assert_ok(bus_socket_open(&engine, bus, &g, &e), &e);
}

static void close_loop(void)
{
    bus_socket_close(verifier);
    bus_socket_close(engine);
    loop_close(loop);
    loop = NULL;
}

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7, max_new_tokens: 64}, "
        "policy: {ramp: [\"0.5\"], ramp_units: 50, min_minutes: 0, pair_deadline_ms: 500}}]",
        "controller.batch_ms=5"};
    if (test_database_make(&database) != 0)
        return -1;
    arena_init(&arena, 16 * MiB);
    metrics = metrics_new();
    board = board_new();
    if (milepost_config_load(NULL, overrides, 2, &arena, &config, &e) != ERR_OK ||
        bus_open(&bus, &e) != ERR_OK)
        return -1;
    open_loop();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_loop();
    bus_close(bus);
    board_free(board);
    metrics_free(metrics);
    arena_free(&arena);
    return test_database_remove(&database);
}

static void turn(void)
{
    assert_ok(loop_turn(loop, 5, &e), &e);
}

/* Sends, letting the loop run while the connection is being made. */
static void send_now(struct bus_socket *s, struct str message)
{
    int rc = ERR_BUSY;
    for (int i = 0; i < 1000 && rc == ERR_BUSY; i++) {
        rc = bus_send(s, (struct str){0}, message, &e);
        if (rc == ERR_BUSY)
            turn();
    }
    assert_ok(rc, &e);
}

static void send_score(uint64_t seq, double reward)
{
    struct buf frame;
    struct sample m = {seq, 1, "default", "champion", "", 1.0, reward};
    buf_init(&frame, MiB);
    sample_frame(&m, clock_wall(&CLOCK_REAL).us, &frame);
    send_now(verifier, buf_str(&frame));
    buf_free(&frame);
}

static void send_control(const struct control *c)
{
    struct buf frame;
    buf_init(&frame, MiB);
    assert_ok(control_encode(c, &frame, &e), &e);
    send_now(engine, buf_str(&frame));
    buf_free(&frame);
}

static struct control hello(uint64_t applied, uint64_t oldest)
{
    return (struct control){.type = CONTROL_HELLO,
                            .hello = {.engine = STR("e1"),
                                      .epoch = 9,
                                      .next_seq = 100,
                                      .oldest_seq = oldest,
                                      .model = STR("m"),
                                      .desired_version = applied}};
}

static struct control heartbeat(uint64_t applied, uint64_t oldest, uint64_t dropped)
{
    return (struct control){.type = CONTROL_HEARTBEAT,
                            .heartbeat = {.engine = STR("e1"),
                                          .epoch = 9,
                                          .next_seq = 100,
                                          .oldest_seq = oldest,
                                          .desired_version = applied,
                                          .outbox_dropped = dropped}};
}

/* Next message of a type that the engine gets, or fails the test. */
static struct control expect(enum control_type type)
{
    struct buf frame;
    struct control c = {0};
    buf_init(&frame, MiB);
    for (int i = 0; i < 1000; i++) {
        turn();
        while (bus_receive(engine, 1, NULL, &frame, &e) == ERR_OK) {
            assert_ok(control_decode(buf_str(&frame), &arena, &c, &e), &e);
            if (c.type == type) {
                buf_free(&frame);
                return c;
            }
        }
    }
    buf_free(&frame);
    fail_msg("no message of type %d came", (int)type);
    return c;
}

static double metric(const char *line)
{
    struct buf b;
    buf_init(&b, MiB);
    metrics_render(metrics, &b);
    buf_put_char(&b, 0);
    const char *at = b.p;
    while ((at = strstr(at, line)) && at != b.p && at[-1] != '\n')
        at++;
    double v = at ? strtod(at + strlen(line), NULL) : -1.0;
    buf_free(&b);
    return v;
}

static void test_an_engine_gets_the_document_and_the_marks(void **state)
{
    (void)state;
    struct control h = hello(0, 1);
    send_control(&h);
    struct control d = expect(CONTROL_DESIRED);
    assert_int_equal(d.desired.version, 1);
    assert_int_equal(d.desired.n_route, 1);
    assert_str(d.desired.route[0].name, "default");
    assert_int_equal(d.desired.route[0].arm[0].revision.number, 1);
    for (uint64_t seq = 1; seq <= 5; seq++)
        send_score(seq == 3 ? 6 : seq, 0.5);
    send_score(2, 0.5);
    struct control c = {0};
    while (c.commit.seq != 2)
        c = expect(CONTROL_COMMIT);
    send_score(3, 0.5);
    while (c.commit.seq != 6)
        c = expect(CONTROL_COMMIT);
    assert_int_equal(metric("milepost_duplicate_scores_total{engine=\"e1\"} "), 1);
    /* Not applied: pushed again. A mark that was lost: told again. */
    struct control b = heartbeat(0, 1, 0);
    usleep(1100000);
    send_control(&b);
    expect(CONTROL_DESIRED);
    send_control(&b);
    assert_int_equal(expect(CONTROL_COMMIT).commit.seq, 6);
    /* It dropped 7 and 8. */
    b = heartbeat(1, 9, 2);
    send_control(&b);
    while (c.commit.seq != 8)
        c = expect(CONTROL_COMMIT);
    assert_int_equal(metric("milepost_sequence_gaps_total{engine=\"e1\"} "), 2);
    send_score(7, 0.5); /* came after all */
    while (metric("milepost_late_scores_total{engine=\"e1\"} ") != 1)
        turn();
}

static void test_versions_grow_past_what_an_engine_has_seen(void **state)
{
    (void)state;
    struct control h = hello(41, 1); /* of a database that is gone */
    send_control(&h);
    assert_int_equal(expect(CONTROL_DESIRED).desired.version, 42);
    close_loop();
    open_loop();
    h = hello(0, 1);
    send_control(&h);
    assert_int_equal(expect(CONTROL_DESIRED).desired.version, 42);
}

static void answered(struct command *c)
{
    *(bool *)c->ctx = true;
}

static struct command *run_command(enum command_kind kind, const char *params, bool is_now,
                                   uint64_t to)
{
    struct command *c = command_new(kind);
    bool is_done = false;
    c->params = str_from(params);
    c->author = STR("operator:test");
    c->reason = STR("a test");
    c->is_now = is_now;
    c->to = to;
    c->done = answered;
    c->ctx = &is_done;
    assert_true(loop_submit(loop, c));
    for (int i = 0; i < 200 && !is_done; i++)
        turn();
    assert_true(is_done);
    return c;
}

static void expect_command(enum command_kind kind, const char *params, uint64_t to, int code)
{
    struct command *c = run_command(kind, params, true, to);
    if (c->err.code != (enum err_code)code)
        fail_msg("command %d: code %d (%s), want %d", (int)kind, (int)c->err.code, c->err.msg,
                 code);
    command_free(c);
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        turn();
}

static int64_t count_decisions(const char *action)
{
    struct store *s = NULL;
    int64_t n = 0;
    char sql[128];
    assert_ok(store_open_readonly(&s, database.path, &e), &e);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM decisions WHERE action='%s'", action);
    assert_ok(store_number(s, sql, &n, &e), &e);
    store_close(s);
    return n;
}

/* A hello that tells of one crash more trips the canary the engine had applied; the same hello
 * again, a new outbox, or a document from before the canary accuse nobody. */
static void test_a_crash_trips_the_canary_it_served(void **state)
{
    (void)state;
    struct control h = hello(0, 1);
    h.hello.crashes = 3; /* of a past nobody here knows */
    send_control(&h);
    uint64_t before = expect(CONTROL_DESIRED).desired.version;
    expect_command(COMMAND_PARAMS, "{\"temperature\":1.8}", 0, ERR_OK);
    uint64_t during = expect(CONTROL_DESIRED).desired.version;
    assert_int_equal(count_decisions("rollback"), 0);
    h = hello(before, 1);
    h.hello.crashes = 4; /* died before it heard of the challenger */
    send_control(&h);
    turns(20);
    assert_int_equal(count_decisions("rollback"), 0);
    h.hello.desired_version = during;
    send_control(&h); /* lives */
    turns(20);
    assert_int_equal(count_decisions("rollback"), 0);
    close_loop(); /* the controller may be away when it happens */
    open_loop();
    h.hello.crashes = 5;
    send_control(&h);
    turns(20);
    assert_int_equal(count_decisions("rollback"), 1);
    assert_int_equal(count_decisions("quarantine"), 1);
    send_control(&h);
    turns(20);
    assert_int_equal(count_decisions("rollback"), 1);
}

/* "share" of an arm of the first route, as /api/status says it. */
static double status_share(size_t arm)
{
    struct buf text;
    json_t *v = NULL;
    buf_init(&text, MiB);
    board_status(board, &text);
    assert_ok(json_parse(buf_str(&text), 0, &v, &e), &e);
    json_t *route = json_array_get(json_object_get(v, "routes"), 0);
    json_t *one = json_array_get(json_object_get(route, "arms"), arm);
    double share = json_number_value(json_object_get(one, "share"));
    json_t *champion = json_object_get(route, "champion");
    if (arm == 0)
        assert_true(share == json_number_value(json_object_get(champion, "share")));
    json_decref(v);
    buf_free(&text);
    return share;
}

/* Of an experiment every arm but the champion; until then the status says who gets how much. */
static void test_a_crash_trips_the_arms_it_served(void **state)
{
    (void)state;
    struct control h = hello(0, 1);
    h.hello.crashes = 1;
    send_control(&h);
    uint64_t before = expect(CONTROL_DESIRED).desired.version;
    expect_command(COMMAND_EXPERIMENT,
                   "{\"arms\":[{\"temperature\":1.1},{\"temperature\":0.9}],\"min_seconds\":600,"
                   "\"max_seconds\":900}",
                   0, ERR_OK);
    uint64_t during = expect(CONTROL_DESIRED).desired.version;
    for (size_t k = 0; k < 3; k++)
        assert_true(fabs(status_share(k) - 1.0 / 3.0) < 1e-9);
    double threshold = /* 3 arms: K(K-1)/alpha */
        metric("milepost_experiment_log_threshold{route=\"default\",test=\"duel_arm-2\"} ");
    assert_true(fabs(threshold - log(6 / 0.05)) < 1e-6);
    assert_true(
        metric("milepost_experiment_log_evalue{route=\"default\",test=\"duel_champion\"} ") == 0.0);
    h = hello(before, 1);
    h.hello.crashes = 2; /* died before it heard of the arms */
    send_control(&h);
    turns(20);
    assert_int_equal(count_decisions("eliminate"), 0);
    h = hello(during, 1);
    h.hello.crashes = 3;
    send_control(&h);
    turns(20);
    assert_int_equal(count_decisions("eliminate"), 2);
    for (int i = 0; i < 500 && status_share(0) < 1.0; i++)
        turn(); /* the status is renewed four times a second */
    assert_true(status_share(0) == 1.0);
}

static void test_operators_steer_through_the_split(void **state)
{
    (void)state;
    struct control h = hello(0, 1);
    send_control(&h);
    expect(CONTROL_DESIRED);
    expect_command(COMMAND_PARAMS, "{\"temperature\":7}", 0, ERR_INVALID);
    expect_command(COMMAND_PARAMS, "{\"temprature\":1}", 0, ERR_INVALID);
    expect_command(COMMAND_PARAMS, "{\"temperature\":0.7}", 0, ERR_CONFLICT);
    expect_command(COMMAND_ROLLBACK, "", 0, ERR_CONFLICT);
    expect_command(COMMAND_PARAMS, "{\"temperature\":1.8,\"max_new_tokens\":8}", 0, ERR_OK);
    struct control d = expect(CONTROL_DESIRED);
    assert_int_equal(d.desired.route[0].n_arm, 2);
    assert_true(d.desired.route[0].arm[1].share == 0.95);
    assert_str(d.desired.route[0].experiment, "e2");
    expect_command(COMMAND_PARAMS, "{\"temperature\":1}", 0, ERR_CONFLICT);
    expect_command(COMMAND_ROLLBACK, "", 0, ERR_OK);
    assert_int_equal(expect(CONTROL_DESIRED).desired.route[0].n_arm, 1);
    /* Only an operator may try a quarantined content again, and that is written down. */
    expect_command(COMMAND_PARAMS, "{\"temperature\":1.8,\"max_new_tokens\":8}", 0, ERR_OK);
    expect_command(COMMAND_PROMOTE, "", 0, ERR_OK);
    d = expect(CONTROL_DESIRED);
    while (d.desired.route[0].arm[0].revision.number != 3)
        d = expect(CONTROL_DESIRED);
    assert_true(str_find(d.desired.route[0].arm[0].revision.reason, STR("quarantined"), 0) > 0);
    expect_command(COMMAND_PAUSE, "", 0, ERR_OK);
    expect_command(COMMAND_PARAMS, "{\"temperature\":1}", 0, ERR_CONFLICT);
    expect_command(COMMAND_RESUME, "", 0, ERR_OK);
    expect_command(COMMAND_ROLLBACK, "", 99, ERR_NOT_FOUND);
    /* What was rolled back is served to all again by no slip of a number. */
    expect_command(COMMAND_ROLLBACK, "", 2, ERR_CONFLICT);
    expect_command(COMMAND_ROLLBACK, "", 1, ERR_OK);
    d = expect(CONTROL_DESIRED);
    while (d.desired.route[0].arm[0].revision.number != 1)
        d = expect(CONTROL_DESIRED);
    close_loop();
    struct replay_report r;
    assert_ok(replay_run(database.path, &r, &e), &e);
    if (!r.agrees)
        fail_msg("%s", r.difference);
    open_loop();
}

/* The disk is full while a batch is written: nothing of it stays, nothing is acknowledged, and when
 * there is room again the rows that come again are taken. */
static void test_a_full_disk_costs_a_batch_and_no_row(void **state)
{
    (void)state;
    struct control h = hello(0, 1);
    send_control(&h);
    expect(CONTROL_DESIRED);
    send_score(1, 0.5);
    assert_int_equal(expect(CONTROL_COMMIT).commit.seq, 1);
    struct db *db = loop_database(loop);
    assert_ok(db_exec(db, "PRAGMA max_page_count=1", &e), &e); /* as it is now: no page more */
    for (uint64_t seq = 2; seq < 300; seq++)
        send_score(seq, 0.5);
    for (int i = 0; i < 200 && metric("milepost_commit_failures_total ") < 1; i++)
        turn();
    assert_true(metric("milepost_commit_failures_total ") >= 1);
    assert_ok(db_exec(db, "PRAGMA max_page_count=1000000", &e), &e);
    for (uint64_t seq = 2; seq < 300; seq++)
        send_score(seq, 0.5);
    struct control c = {0};
    while (c.commit.seq != 299)
        c = expect(CONTROL_COMMIT);
    close_loop();
    struct replay_report r;
    assert_ok(replay_run(database.path, &r, &e), &e);
    assert_true(r.agrees);
    assert_int_equal(r.n_rows, 299);
    open_loop();
}

/* HTTP. */

static struct http_server *server;

static void *run_loop(void *ctx)
{
    struct err mine;
    (void)ctx;
    return loop_run(loop, &mine) == ERR_OK ? NULL : (void *)1;
}

static void *run_server(void *ctx)
{
    (void)ctx;
    http_server_run(server);
    return NULL;
}

static void stop_server(void *ctx)
{
    http_server_stop(ctx, 100);
}

static int call(struct http_client *client, const char *target, const char *body,
                const char *header, json_t **out)
{
    char url[160];
    struct http_result r;
    const char *headers[] = {header, NULL};
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", http_server_port(server), target);
    struct http_call c = {.url = url, .body = str_from(body), .headers = header ? headers : NULL};
    *out = NULL;
    assert_ok(http_client_call(client, &c, &r, &e), &e);
    if (json_parse(buf_str(&r.body), 0, out, &e) != ERR_OK)
        *out = NULL;
    int status = r.status;
    http_result_free(&r);
    return status;
}

static void expect_call(struct http_client *client, const char *target, const char *body,
                        const char *header, int want, const char *key)
{
    json_t *v;
    int status = call(client, target, body, header, &v);
    if (status != want || (key && !json_object_get(v, key)))
        fail_msg("%s: status %d, want %d with \"%s\"", target, status, want, key ? key : "");
    json_decref(v);
}

static const struct {
    const char *target, *body, *header;
    int status;
    const char *key;
} CALLS[] = {
    {"/api/revisions?route=default&limit=5", NULL, NULL, 200, "revisions"},
    {"/api/revisions?limit=0", NULL, NULL, 400, "error"},
    {"/api/revisions?limit=x", NULL, NULL, 400, "error"},
    {"/api/decisions?route=", NULL, NULL, 200, "decisions"},
    {"/api/decisions?after=0&limit=1", NULL, NULL, 200, "decisions"},
    {"/api/decisions/1", NULL, NULL, 200, "hash"},
    {"/api/decisions/77", NULL, NULL, 404, "error"},
    {"/api/decisions/x", NULL, NULL, 400, "error"},
    {"/api/scores?order=worst&limit=3", NULL, NULL, 200, "scores"},
    {"/api/scores?route=none", NULL, NULL, 404, "error"},
    {"/api/params", NULL, NULL, 200, "champion"},
    {"/api/series", NULL, NULL, 200, "rewards"},
    {"/nothing", NULL, NULL, 404, "error"},
    {"/api/pause", "{}", NULL, 401, "error"},
    {"/api/pause", "{}", "Authorization: Bearer wrong", 401, "error"},
    {"/api/params", "{", "Authorization: Bearer secret", 400, "error"},
    {"/api/params", "{\"params\":3}", "Authorization: Bearer secret", 400, "error"},
    {"/api/params", "{}", "Authorization: Bearer secret", 400, "error"},
    {"/api/params", "{\"params\":{\"temperature\":1.5},\"now\":true}",
     "Authorization: Bearer secret", 200, "experiment"},
    {"/api/params", "{\"params\":{\"temperature\":1.2}}", "Authorization: Bearer secret", 409,
     "error"},
    {"/api/rollback", "{\"route\":\"default\"}", "Authorization: Bearer secret", 200, "decision"},
    {"/api/status", NULL, NULL, 200, "routes"},
};

/* Rows are received beside the writer: they come when they come. */
static json_t *wait_for_scores(struct http_client *client, size_t n)
{
    json_t *v = NULL;
    for (int i = 0; i < 500; i++) {
        json_decref(v);
        assert_int_equal(call(client, "/api/scores?worst=1", NULL, NULL, &v), 200);
        if (json_array_size(json_object_get(v, "scores")) == n)
            break;
        usleep(10000);
    }
    return v;
}

static void test_http_api(void **state)
{
    (void)state;
    struct http_server_config hc = {.host = "127.0.0.1",
                                    .max_body_bytes = MiB,
                                    .max_header_bytes = 16 * KiB,
                                    .max_connections = 16,
                                    .idle_timeout_ms = 5000,
                                    .slow_reader_bytes = 16 * MiB,
                                    .error_body = api_error_body};
    struct http_client *client;
    struct api *api;
    pthread_t writer, reader;
    send_score(1, 0.25);
    send_score(2, -1);
    assert_ok(http_server_open(&server, &hc, &e), &e);
    struct api_options ao = {server, loop, board, metrics, &config, database.path, STR("secret")};
    assert_ok(api_open(&api, &ao, &e), &e);
    assert_int_equal(pthread_create(&writer, NULL, run_loop, NULL), 0);
    assert_int_equal(pthread_create(&reader, NULL, run_server, NULL), 0);
    assert_ok(http_client_open(&client, &e), &e);
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        expect_call(client, CALLS[i].target, CALLS[i].body, CALLS[i].header, CALLS[i].status,
                    CALLS[i].key);
    json_t *v = wait_for_scores(client, 2);
    json_t *list = json_object_get(v, "scores");
    assert_int_equal(json_array_size(list), 2);
    json_t *first = json_array_get(list, 0);
    assert_true(json_real_value(json_object_get(first, "reward")) == 0.25);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "an answer");
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "reward")));
    json_decref(v);
    http_client_close(client);
    http_server_post(server, stop_server, server);
    pthread_join(reader, NULL);
    loop_stop(loop);
    pthread_join(writer, NULL);
    api_close(api);
    http_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_engine_gets_the_document_and_the_marks, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_versions_grow_past_what_an_engine_has_seen, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_operators_steer_through_the_split, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_crash_trips_the_canary_it_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_crash_trips_the_arms_it_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_disk_costs_a_batch_and_no_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_http_api, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
