/* The demonstration's SQL against a small hand-made history whose numbers can be checked by eye. */
#include "common/test.h"

#include "controller/cli/demo.h"
#include "schemas/migrations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

struct fixture {
    struct db *db;
    int64_t n;
};

/* An output and its counted score; reward < 0 = unscored. */
static void put(struct fixture *f, const char *route, int revision, const char *experiment,
                int64_t created_us, double reward)
{
    char sql[700], value[32] = "NULL";
    struct err e = {0};

    f->n++;
    if (reward >= 0)
        snprintf(value, sizeof value, "%g", reward);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO outputs VALUES(%lld,'e',1,%lld,'r%lld',0,'%s',%d,'champion','%s',1,'','',"
        "%lld,1,'stop',0,1,0,1,0,0,0,%lld,x'');"
        "INSERT INTO scores VALUES(%lld,%lld,'r%lld',0,'%s','v','w','%s',1,%s,'',0,0,'[]',NULL)",
        (long long)f->n, (long long)f->n, (long long)f->n, route, revision, experiment,
        (long long)f->n, (long long)created_us, (long long)f->n, (long long)f->n, (long long)f->n,
        route, route, value);
    assert_ok(db_exec(f->db, sql, &e), &e);
}

static void exec(struct fixture *f, const char *sql)
{
    struct err e = {0};

    assert_ok(db_exec(f->db, sql, &e), &e);
}

static void add_history(struct fixture *f)
{
    exec(f, "INSERT INTO revisions VALUES(1,0,'default','config','',0,'h1',"
            "'{\"params\":{\"temperature\":0.2}}'),"
            "(2,0,'hot','config','',0,'h2','{\"params\":{\"temperature\":1.7}}'),"
            "(3,1,'default','operator:x','',0,'h3','{\"params\":{\"temperature\":1.8}}'),"
            "(4,2,'hot','policy:canary','',0,'h4','{\"params\":{\"temperature\":1.0}}')");
    exec(f, "INSERT INTO experiments VALUES('x1','default',1,3,'operator:x',1000,2000,'',1),"
            "('x2','hot',2,4,'policy:canary',5000,6000,'',2)");
    exec(f,
         "INSERT INTO decisions VALUES(1,9,'default','rollback','policy:canary','','x1',3,1,"
         "'rollback',3.5,3.0,2000,'','a','{\"effect\":-0.5}'),"
         "(2,20,'hot','promote','policy:canary','','x2',2,4,'promote',4.5,3.0,6000,'','b',"
         "'{\"n_champion\":7,\"n_challenger\":8,\"mean_champion\":0.1,\"mean_challenger\":0.6}')");
    exec(f, "INSERT INTO quarantine VALUES('default','h3',3,1,2000)");
}

static void add_rows(struct fixture *f)
{
    put(f, "default", 1, "", 100, 1);
    put(f, "default", 1, "", 200, 0.5);
    put(f, "default", 3, "x1", 1100, 0);
    put(f, "default", 3, "x1", 1200, 0.25);
    put(f, "default", 3, "x1", 2100, -1); /* was under way at the decision; unscored */
    put(f, "default", 1, "x1", 1300, 1);
    put(f, "default", 1, "", 2500, 0.75);
    put(f, "hot", 2, "", 4000, 0);
    put(f, "hot", 2, "", 4100, 0.5);
    put(f, "hot", 2, "x2", 5500, 0.9); /* in the trial: in neither end of the gain */
    put(f, "hot", 4, "x2", 5600, 0.1);
    put(f, "hot", 4, "", 6500, 1);
    put(f, "hot", 4, "", 6600, 0.5);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct err e = {0};

    assert_ok(db_open(&f->db, ":memory:", DB_SYNC_NORMAL, &e), &e);
    for (size_t i = 0; i < SCHEMA_MIGRATIONS_COUNT; i++)
        exec(f, (const char *)SCHEMA_MIGRATIONS[i].p);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    db_close(f->db);
    free(f);
    return 0;
}

static void test_push(void **state)
{
    struct fixture *f = *state;
    struct demo_facts facts;
    struct err e = {0};

    add_history(f);
    add_rows(f);
    assert_ok(demo_facts_read(f->db, &facts, &e), &e);
    assert_int_equal(facts.bad_revision, 3);
    assert_int_equal(facts.champion, 1);
    assert_true(facts.is_quarantined);
    assert_int_equal(facts.before.n, 2);
    assert_near(facts.before.mean, 0.75);
    assert_near(facts.before.variance, 0.125);
    assert_int_equal(facts.during.n, 2);
    assert_int_equal(facts.during.n_unscored, 1);
    assert_near(facts.during.mean, 0.125);
    assert_near(facts.control.mean, 1);
    assert_int_equal(facts.after.n, 1);
    assert_near(facts.after.mean, 0.75);
    assert_int_equal(facts.requests_until_rollback, 3);
    assert_near(facts.seconds_until_rollback, 0.001);
    assert_near(facts.effect, -0.5);
    assert_near(facts.log_e, 3.5);
}

static void test_cooling(void **state)
{
    struct fixture *f = *state;
    struct demo_facts facts;
    struct err e = {0};

    add_history(f);
    add_rows(f);
    assert_ok(demo_facts_read(f->db, &facts, &e), &e);
    assert_int_equal(facts.n_step, 1);
    assert_near(facts.step[0].from_temperature, 1.7);
    assert_near(facts.step[0].to_temperature, 1.0);
    assert_int_equal(facts.step[0].n_challenger, 8);
    assert_int_equal(facts.hot_first.n, 2);
    assert_int_equal(facts.hot_last.n, 2);
    assert_near(facts.gain, 0.5);
    /* both variances are 0.125 over 2 rows */
    assert_near(facts.gain_half_width, 1.96 * sqrt(0.125));
    assert_int_equal(facts.n_outputs, 13);
    assert_int_equal(facts.n_scores, 13);
    assert_int_equal(facts.n_decisions, 2);
}

static void test_success_needs_everything(void **state)
{
    struct fixture *f = *state;
    struct demo_facts facts, broken;
    const char *why = "";
    struct err e = {0};

    assert_int_equal(demo_facts_read(f->db, &facts, &e), ERR_NOT_FOUND);
    add_history(f);
    add_rows(f);
    assert_ok(demo_facts_read(f->db, &facts, &e), &e);
    facts.gain_half_width = 0.1; /* as if there were more rows */
    assert_true(demo_succeeded(&facts, &why));
    broken = facts;
    broken.is_quarantined = false;
    assert_false(demo_succeeded(&broken, &why));
    assert_string_equal(why, "the bad revision is not quarantined");
    broken = facts;
    broken.log_e = 2.9;
    assert_false(demo_succeeded(&broken, &why));
    broken = facts;
    broken.gain_half_width = 0.6;
    assert_false(demo_succeeded(&broken, &why));
    broken = facts;
    broken.after.mean = (double)NAN;
    assert_false(demo_succeeded(&broken, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_push, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cooling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_success_needs_everything, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
