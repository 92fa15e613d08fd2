/* The team: every share is done exactly once, before team_each returns, by threads below the size;
 * an idle team uses no processor time. Run under the tsan preset too. */
#include "common/test.h"

#include "kernels/threads.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { MAX_SHARES = 300, JOBS = 400 };

struct tally {
    struct team *team;
    uint32_t n_shares, n_threads;
    uint32_t count[MAX_SHARES]; /* plain: a share done twice, or late, is a race TSan sees */
    uint32_t wrong;
};

static void count_share(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    struct tally *t = arg;
    if (thread >= t->n_threads || n_shares != t->n_shares)
        t->count[share] += 1000;
    t->count[share]++;
}

static void run_jobs(void *arg)
{
    struct tally *t = arg;
    for (uint32_t job = 0; job < JOBS; job++) {
        t->n_shares = job % MAX_SHARES;
        memset(t->count, 0, sizeof t->count);
        team_each(t->team, t->n_shares, count_share, t);
        for (uint32_t i = 0; i < MAX_SHARES; i++)
            t->wrong += t->count[i] != (i < t->n_shares);
    }
}

static void test_each_share_once(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads <= 3; threads++) {
        struct err e;
        struct tally t = {0};
        assert_ok(team_open(&t.team, threads, &e), &e);
        t.n_threads = team_size(t.team);
        assert_in_range(t.n_threads, 1, team_usable_cores());
        for (int i = 0; i < 5; i++)
            team_run(t.team, run_jobs, &t);
        assert_int_equal(t.wrong, 0);
        team_close(t.team);
    }
}

/* Each job writes its number into the cells of its parity and looks for the number before in the
 * others: one that begins early, or whose argument was not kept, finds another. */
enum { CELLS = 24 };
struct chain {
    struct team *team;
    uint32_t cell[2][CELLS]; /* plain: TSan sees a job that does not wait */
    uint32_t posted, wrong;
};
struct link {
    struct chain *chain;
    uint32_t job, n_shares;
};

static void check_link(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct link *l = arg;
    struct chain *c = l->chain;
    (void)thread;
    if (n_shares != l->n_shares || c->cell[(l->job + 1) % 2][CELLS - 1 - share] != l->job - 1)
        c->wrong++; /* a race, where anything is wrong at all */
    c->cell[l->job % 2][share] = l->job;
    for (uint32_t i = n_shares; share == 0 && i < CELLS; i++)
        c->cell[l->job % 2][i] = l->job;
}

static void post_link(struct chain *c, uint32_t n_shares)
{
    struct link l = {c, ++c->posted, n_shares};
    if (c->posted % 5 == 0)
        team_each(c->team, n_shares, check_link, &l);
    else
        team_post(c->team, &(struct team_job){n_shares, check_link, &l, sizeof l, c, sizeof *c});
    l = (struct link){NULL, 0, 0};
}

static void post_links(void *arg)
{
    struct chain *c = arg;
    for (uint32_t i = 0; i < JOBS; i++)
        post_link(c, i % CELLS + 1);
    team_join(c->team);
    c->wrong += c->cell[c->posted % 2][0] != c->posted;
    post_link(c, CELLS); /* over by the end of the body */
}

static void test_posted_jobs_wait(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads <= 1; threads++) {
        struct err e;
        struct chain c = {0};
        assert_ok(team_open(&c.team, threads, &e), &e);
        for (int i = 0; i < 20; i++) {
            team_run(c.team, post_links, &c);
            assert_int_equal(c.cell[c.posted % 2][CELLS - 1], c.posted);
        }
        assert_int_equal(c.wrong, 0);
        team_close(c.team);
    }
}

struct places {
    struct team *team;
    int n_cores[2]; /* that a share's thread may run on */
};

static void note_place(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    struct places *p = arg;
    cpu_set_t set;
    (void)n_shares;
    (void)thread;
    if (sched_getaffinity(0, sizeof set, &set) == 0) /* no assertion outside the test's thread */
        p->n_cores[share] = CPU_COUNT(&set);
}

static void note_places(void *arg)
{
    struct places *p = arg;
    team_each(p->team, 2, note_place, p);
}

/* A smaller team is not pinned: two engines of one thread would share a core beside a free one. */
static void test_pinned_when_it_has_all_cores(void **state)
{
    cpu_set_t set;
    struct err e;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    int n_cores = CPU_COUNT(&set);
    for (uint32_t threads = 0; threads <= 1; threads++) {
        struct places p = {0};
        assert_ok(team_open(&p.team, threads, &e), &e);
        bool has_all = (int)team_size(p.team) == n_cores;
        team_run(p.team, note_places, &p);
        for (int i = 0; i < 2; i++)
            assert_int_equal(p.n_cores[i], has_all ? 1 : n_cores);
        team_close(p.team);
    }
}

static void test_closed_without_work(void **state)
{
    struct err e;
    struct team *t;
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_ok(team_open(&t, 0, &e), &e);
        team_close(t);
    }
    team_close(NULL);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_idle_costs_nothing(void **state)
{
    const struct timespec pause = {0, 300000000};
    struct err e;
    struct tally t = {0};
    (void)state;
    assert_ok(team_open(&t.team, 0, &e), &e);
    t.n_threads = team_size(t.team);
    team_run(t.team, run_jobs, &t);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    double before = cpu_seconds();
    nanosleep(&pause, NULL);
    assert_true(cpu_seconds() - before < 0.01);
    team_close(t.team);
}

static void test_shares_cover(void **state)
{
    (void)state;
    for (uint32_t count = 0; count < 50; count++) {
        for (uint32_t n = 1; n < 20; n++) {
            uint32_t next = 0;
            for (uint32_t i = 0; i < n; i++) {
                struct team_range r = team_share(count, i, n);
                assert_int_equal(r.from, next);
                assert_in_range(r.to - r.from, count / n, count / n + 1);
                next = r.to;
            }
            assert_int_equal(next, count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_share_once),
                                       cmocka_unit_test(test_posted_jobs_wait),
                                       cmocka_unit_test(test_pinned_when_it_has_all_cores),
                                       cmocka_unit_test(test_closed_without_work),
                                       cmocka_unit_test(test_idle_costs_nothing),
                                       cmocka_unit_test(test_shares_cover)};
    return cmocka_run_group_tests_name("kernels.threads", tests, NULL, NULL);
}
