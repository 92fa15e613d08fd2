/* controller/test_ledger.h - a ledger over a database in a folder of its own, on a clock that moves
 * when told, with what an engine and an operator do to it; for tests.
 *
 * Whatever fails here fails the running test. One thread. */
#ifndef CONTROLLER_TEST_LEDGER_H
#define CONTROLLER_TEST_LEDGER_H

#include "controller/intake.h"
#include "controller/replay.h"
#include "controller/sample_frame.h"
#include "controller/test_database.h"

struct test_ledger {
    struct test_database database;
    struct arena arena; /* the configuration's */
    struct milepost_config config;
    struct fake_clock fake;
    struct ledger_hooks hooks; /* of the next test_ledger_open */
    struct ledger *ledger;     /* NULL = closed */
    struct intake *intake;
    struct err e;
};

/* Of the next test_ledger_open. */
static inline void test_ledger_configure(struct test_ledger *t, const char *const *overrides,
                                         size_t n)
{
    assert_ok(milepost_config_load(NULL, overrides, n, &t->arena, &t->config, &t->e), &t->e);
}

/* For a set-up: 0, or -1. Nothing is open yet. */
static inline int test_ledger_make(struct test_ledger *t, const char *const *overrides, size_t n)
{
    *t = (struct test_ledger){.fake.wall_now = {1000000000}};
    if (test_database_make(&t->database) != 0)
        return -1;
    arena_init(&t->arena, 16 * MiB);
    test_ledger_configure(t, overrides, n);
    return 0;
}

static inline void test_ledger_open(struct test_ledger *t)
{
    struct ledger_options o = {.database = t->database.path,
                               .config = &t->config,
                               .clock = fake_clock_as_clock(&t->fake),
                               .hooks = t->hooks};
    assert_ok(ledger_open(&t->ledger, &o, &t->e), &t->e);
    t->intake = intake_new(t->ledger);
    assert_non_null(t->intake);
}

/* As kill -9 does: nothing of the open batch survives. */
static inline void test_ledger_drop(struct test_ledger *t)
{
    intake_free(t->intake);
    ledger_close(t->ledger);
    t->intake = NULL;
    t->ledger = NULL;
}

/* For a tear-down: 0, or -1 when files are left. */
static inline int test_ledger_end(struct test_ledger *t)
{
    test_ledger_drop(t);
    arena_free(&t->arena);
    return test_database_remove(&t->database);
}

/* Of the first route. */
static inline struct policy_view test_ledger_view(const struct test_ledger *t)
{
    struct policy_view v;
    policy_view(t->ledger->route[0].course.policy, &v);
    return v;
}

static inline void test_ledger_begin(struct test_ledger *t)
{
    assert_ok(ledger_begin(t->ledger, &t->e), &t->e);
}

static inline void test_ledger_commit(struct test_ledger *t)
{
    assert_ok(ledger_commit(t->ledger, &t->e), &t->e);
}

/* A verifier's frame, into the open batch or a new one. */
static inline enum intake_kind test_ledger_take_timed(struct test_ledger *t, const struct sample *m,
                                                      uint64_t ttft_us, uint64_t decode_us)
{
    struct intake_result r;
    struct buf frame;
    buf_init(&frame, MiB);
    sample_frame_timed(m, t->fake.wall_now.us, ttft_us, decode_us, &frame);
    test_ledger_begin(t);
    assert_ok(intake_frame(t->intake, buf_str(&frame), &r, &t->e), &t->e);
    buf_free(&frame);
    return r.kind;
}

static inline enum intake_kind test_ledger_take(struct test_ledger *t, const struct sample *m)
{
    return test_ledger_take_timed(t, m, 0, 0);
}

/* What ledger_event says to an operator's event on the first route, in the open batch; payload ""
 * = none. */
static inline int test_ledger_event(struct test_ledger *t, const char *kind, const char *payload,
                                    uint64_t *decision)
{
    struct ledger_event ev = {.route = &t->ledger->route[0],
                              .kind = kind,
                              .actor = STR("operator:test"),
                              .reason = STR("a test"),
                              .payload = str_from(payload)};
    return ledger_event(t->ledger, &ev, decision, &t->e);
}

/* A new revision of the champion, in the open batch; its number. */
static inline uint64_t test_ledger_revision(struct test_ledger *t, double temperature)
{
    struct revision r = {.route = STR("default"),
                         .parent = test_ledger_view(t).champion,
                         .author = STR("operator:test"),
                         .reason = STR("a test"),
                         .created = {t->fake.wall_now.us}};
    assert_ok(params_put(&r.params.defaults, PARAM_TEMPERATURE, temperature, &t->e), &t->e);
    assert_ok(store_add_revision(t->ledger->store, &r, &t->e), &t->e);
    return r.number;
}

/* The revision against the champion, as experiment "eNUMBER": what ledger_event says. */
static inline int test_ledger_start(struct test_ledger *t, uint64_t revision, bool is_now,
                                    uint64_t *decision)
{
    char payload[96];
    snprintf(payload, sizeof payload, "{\"revision\":%llu,\"experiment\":\"e%llu\",\"is_now\":%s}",
             (unsigned long long)revision, (unsigned long long)revision, is_now ? "true" : "false");
    return test_ledger_event(t, "start", payload, decision);
}

/* Of what is committed; what: for the message. */
static inline void test_ledger_replay(struct test_ledger *t, bool agrees, const char *what)
{
    struct replay_report report;
    assert_ok(replay_run(t->database.path, &report, &t->e), &t->e);
    if (report.agrees != agrees)
        fail_msg("%s: replay says %d: %s", what, report.agrees, report.difference);
    if (!agrees)
        assert_true(report.difference[0] != 0);
}

/* Whatever a stranger does to the file. */
static inline void test_ledger_tamper(struct test_ledger *t, const char *sql)
{
    struct db *db;
    assert_ok(db_open(&db, t->database.path, DB_SYNC_NORMAL, &t->e), &t->e);
    assert_ok(db_exec(db, sql, &t->e), &t->e);
    db_close(db);
}

static inline int64_t test_ledger_number(const struct test_ledger *t, const char *sql)
{
    return test_database_number(&t->database, sql);
}

#endif
