/* tests/sim/three_cores.c - engine control, verifier and controller in one process on virtual time.
 *
 * Seeds 1, 2, ... each with its own weather: loss, repetition, disorder, delay, restarts of each of
 * the three, an operator who asks for anything, outboxes too small for the time nobody listens.
 * tests/sim/audit.h says what must hold; the first broken invariant ends the run with its seed.
 * MILEPOST_SIM_SEEDS asks for more of them (200 are the full run), MILEPOST_SIM_FIRST for the
 * first, which is run once more at the end and must leave the same behind. Then the same world in
 * two kinds of weather, for its speed: processor time, so that a busy machine does not matter much,
 * with every invariant after each event. The closing replay of the whole database is no event and
 * is timed apart. MILEPOST_SIM_SPEED asks for more requests of it.
 */
#include "tests/sim/audit.h"
#include "tests/sim/report.h"

#include "common/log.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The short run's seeds see full outboxes and restarts, and the three every action of the law. */
#if defined(__SANITIZE_ADDRESS__)
enum { FIRST = 12, SEEDS = 1, REQUESTS = 1200, SPEED_REQUESTS = 0 };
#else
enum { FIRST = 10, SEEDS = 3, REQUESTS = 4000, SPEED_REQUESTS = 20000 };
#endif
enum { FULL_SEEDS = 200, MANY_SEEDS = 24 /* so many see every action, whatever changes */ };

struct totals {
    struct audit_sums sums;
    uint64_t n_events, n_requests, n_lost, n_restarts[3];
    double seconds, closing; /* of the processor: for the events; for the replay at the end */
};

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static struct world_plan plan_of(uint64_t seed)
{
    struct rng r;
    rng_seed(&r, seed * 77777);
    struct world_plan p = {.seed = seed,
                           .n_requests = REQUESTS,
                           .n_engines = 1 + seed % 2,
                           .burst = 10,
                           .service_us = 120000,
                           .faults = {.loss = 0.08 * rng_uniform(&r),
                                      .duplicate = 0.15 * rng_uniform(&r),
                                      .reorder = 0.4 * rng_uniform(&r),
                                      .delay_us = 30000 * rng_uniform(&r)},
                           .restarts = 0.002 + 0.003 * rng_uniform(&r),
                           .operator_acts = 0.004,
                           .outbox_bytes = seed % 4 == 0 ? 150000 : 64 * MiB,
                           .is_audited = true};
    snprintf(p.again, sizeof p.again,
             "MILEPOST_SIM_FIRST=%llu MILEPOST_SIM_SEEDS=1 MILEPOST_SIM_SPEED=0",
             (unsigned long long)seed);
    return p;
}

static void add(struct totals *t, const struct world *w)
{
    const struct audit_sums *s = audit_sums(w->audit);
    t->sums.n_rows += s->n_rows;
    t->sums.n_unscored += s->n_unscored;
    t->sums.n_decisions += s->n_decisions;
    t->sums.n_documents += s->n_documents;
    t->sums.n_gap += s->n_gap;
    t->sums.n_late += s->n_late;
    t->sums.n_foreign += s->n_foreign;
    t->sums.n_paused += s->n_paused;
    t->sums.n_trial_unscored += s->n_trial_unscored;
    for (int i = 0; i < ACTION_KIND_COUNT; i++)
        t->sums.n_action[i] += s->n_action[i];
    for (int i = 0; i < 3; i++)
        t->n_restarts[i] += w->n_restarts[i];
    t->n_events += w->n_events;
    t->n_requests += w->n_admitted;
    t->n_lost += w->n_lost;
}

static uint64_t run(const struct world_plan *p, struct totals *t)
{
    static struct world w;
    double start = cpu_seconds();
    world_open(&w, p);
    world_run(&w);
    t->seconds += cpu_seconds() - start;
    start = cpu_seconds();
    world_end(&w);
    t->closing += cpu_seconds() - start;
    uint64_t digest = world_digest(&w);
    add(t, &w);
    world_close(&w);
    return digest;
}

static uint64_t run_seed(uint64_t seed, struct totals *t)
{
    struct world_plan p = plan_of(seed);
    return run(&p, t);
}

/* A seed decides everything: the first one's run comes out the same twice, the others' differ. */
static void run_seeds(struct report *report, uint64_t first, uint64_t n_seeds, struct totals *t)
{
    struct totals again = {0};
    uint64_t n_others = 0, digest = run_seed(first, t);
    for (uint64_t seed = first + 1; seed < first + n_seeds; seed++)
        n_others += run_seed(seed, t) != digest;
    printf("seed %llu left %016llx behind\n", (unsigned long long)first,
           (unsigned long long)digest);
    report_at_least(report, "second runs equal to the first", run_seed(first, &again) == digest, 1);
    report_at_least(report, "other seeds' runs that differ", (double)n_others, (double)n_seeds - 1);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

static void print(const struct totals *t, uint64_t n_seeds)
{
    printf("%llu seeds, %llu events, %llu requests (%llu died with their engine), %llu rows (%llu "
           "unscored), %llu gaps (%llu came late), %llu decisions, %llu documents\n",
           (unsigned long long)n_seeds, (unsigned long long)t->n_events,
           (unsigned long long)t->n_requests, (unsigned long long)t->n_lost,
           (unsigned long long)t->sums.n_rows, (unsigned long long)t->sums.n_unscored,
           (unsigned long long)t->sums.n_gap, (unsigned long long)t->sums.n_late,
           (unsigned long long)t->sums.n_decisions, (unsigned long long)t->sums.n_documents);
    printf("restarts: %llu of engines, %llu of the verifier, %llu of the controller; %llu rows of "
           "revisions that served no more, %llu admissions on a paused route\n",
           (unsigned long long)t->n_restarts[0], (unsigned long long)t->n_restarts[1],
           (unsigned long long)t->n_restarts[2], (unsigned long long)t->sums.n_foreign,
           (unsigned long long)t->sums.n_paused);
    for (int i = 0; i < ACTION_KIND_COUNT; i++)
        printf("%s %llu  ", policy_action_name((enum policy_action_kind)i),
               (unsigned long long)t->sums.n_action[i]);
    printf("\n");
}

static void print_speed(const struct totals *t, const char *weather)
{
    double n = (double)t->n_requests * 60e-6;
    printf("%.2f million simulated requests a minute on one core in %s, every invariant after each "
           "event (%.2f with the closing replay)\n",
           n / t->seconds, weather, n / (t->seconds + t->closing));
}

struct weather {
    const char *name;
    struct bus_faults faults;
    double restarts;
};

static void measure(const struct weather *w)
{
    struct totals t = {0};
    struct world_plan p = {.seed = 1,
                           .n_requests = number_of("MILEPOST_SIM_SPEED", SPEED_REQUESTS),
                           .n_engines = 1,
                           .burst = 64,
                           .service_us = 10000,
                           .faults = w->faults,
                           .restarts = w->restarts,
                           .operator_acts = 0.002,
                           .outbox_bytes = 64 * MiB,
                           .is_audited = true};
    if (!p.n_requests)
        return;
    snprintf(p.again, sizeof p.again, "MILEPOST_SIM_SEEDS=0 MILEPOST_SIM_SPEED=%llu",
             (unsigned long long)p.n_requests);
    run(&p, &t);
    print_speed(&t, w->name);
}

/* Delay only; then a message in a thousand lost, one repeated, ten out of order, and a process that
 * dies every ten thousand events. */
static void measure_each(void)
{
    static const struct weather WEATHER[] = {
        {"calm weather", {.delay_us = 2000}, 0},
        {"a bad day's weather",
         {.loss = 0.001, .duplicate = 0.001, .reorder = 0.01, .delay_us = 2000},
         0.0001}};
    for (size_t i = 0; i < sizeof WEATHER / sizeof WEATHER[0]; i++)
        measure(&WEATHER[i]);
}

/* That the runs were no idle ones. */
static void check(struct report *report, const struct totals *t, uint64_t n_seeds)
{
    report_at_least(report, "rows", (double)t->sums.n_rows, 0.5 * REQUESTS * (double)n_seeds);
    report_at_least(report, "unscored rows", (double)t->sums.n_unscored, 1);
    report_at_least(report, "decisions", (double)t->sums.n_decisions, 1);
    if (n_seeds > 1)
        report_at_least(report, "unscored rows in trials", (double)t->sums.n_trial_unscored, 1);
    if (n_seeds < MANY_SEEDS)
        return;
    for (int i = 0; i < 3; i++)
        report_at_least(report, "restarts", (double)t->n_restarts[i], 1);
    for (int i = 0; i < ACTION_KIND_COUNT; i++)
        report_at_least(report, policy_action_name((enum policy_action_kind)i),
                        (double)t->sums.n_action[i], 1);
    report_at_least(report, "gaps", (double)t->sums.n_gap, 1);
    report_at_least(report, "rows of revisions that served no more", (double)t->sums.n_foreign, 1);
    report_at_least(report, "admissions on a paused route", (double)t->sums.n_paused, 1);
}

int main(void)
{
    struct totals t = {0};
    struct report report = {0};
    uint64_t n_seeds =
        number_of("MILEPOST_SIM_SEEDS", getenv("MILEPOST_LONG") ? FULL_SEEDS : SEEDS);
    uint64_t first = number_of("MILEPOST_SIM_FIRST", n_seeds == SEEDS ? FIRST : 1);
    mallopt(M_MMAP_THRESHOLD, 4 << 20); /* memory of a seed is the next one's */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    log_setup("sim", LOG_ERROR);
    db_setup();
    db_keep_in_memory();
    if (n_seeds) {
        run_seeds(&report, first, n_seeds, &t);
        print(&t, n_seeds);
        print_speed(&t, "the seeds' weather");
        check(&report, &t, n_seeds);
    }
    measure_each();
    return report_end(&report);
}
