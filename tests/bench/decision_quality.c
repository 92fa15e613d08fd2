/* tests/bench/decision_quality.c - four judges of a new revision on the same simulated traffic.
 *
 * canary: the law that serves. threshold: the law that serves, which is what people write by hand
 * (mean of the last 100 under 0.75). Kayenta-like: Mann-Whitney over points of 50 outputs of each
 * arm, looked at every 10 points over all points so far, one-sided at p < 0.01 (its 98% two-sided).
 * Flagger-like: a check every 50 challenger outputs, failed when their mean is under 0.75, rolled
 * back at the fifth failed check, promoted after the twentieth check.
 *
 * Traffic: 0/1 rewards, four out of five requests of a class that earns 0.85, the rest 0.60: mean
 * 0.80; the challenger earns `drop` less in both; 50/50, up to 20,000 requests. "Harder traffic":
 * no drop, but from request 5,000 on two out of five are of the harder class, for both arms. Every
 * judge sees the same requests. decision_quality [--json] [runs]. Single thread. */
#include "common/rng.h"
#include "controller/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 20000, SHIFT_AT = 5000, POINT = 50, LOOK_EVERY = 10, POINTS = REQUESTS / POINT };
enum { CHECK_ROWS = 50, FAILED_CHECKS = 5, CHECKS = 20, RUNS = 300 };
#define BOUND      0.75
#define KAYENTA_Z  2.3263 /* one-sided 1% */
#define EASY       0.85
#define HARD       0.60
#define SHARE_HARD 0.2

struct request {
    bool is_challenger, is_hard;
    double reward[2]; /* as the champion's, as the challenger's */
};

struct scenario {
    const char *name;
    double drop;
    bool is_shifted;
};

static const struct scenario SCENARIOS[] = {
    {"no change", 0.0, false}, {"harder traffic", 0.0, true}, {"drop 0.05", 0.05, false},
    {"drop 0.10", 0.1, false}, {"drop 0.20", 0.2, false},     {"drop 0.40", 0.4, false},
};
enum { N_SCENARIOS = sizeof SCENARIOS / sizeof *SCENARIOS, N_NULL = 2 };

/* One run's state of every judge. */
struct points {
    double value[2][POINTS], sum[2];
    int n[2], in_point[2], looked_at;
};

struct judge_state {
    struct policy *policy;
    struct points points;
    int n_rows, n_checks, n_failed;
    double sum;
    uint64_t n;
};

struct judge {
    const char *name;
    void (*start)(struct judge_state *j);
    bool (*add)(struct judge_state *j, const struct request *q); /* true: rolled back */
};

/* The laws. */

static struct policy_revision revision(uint64_t number)
{
    struct policy_revision r = {.number = number};
    snprintf(r.hash, sizeof r.hash, "%" PRIu64, number);
    r.knob[PARAM_TEMPERATURE] = 1.0;
    r.knob[PARAM_MAX_NEW_TOKENS] = 256;
    return r;
}

static void feed(struct judge_state *j, const struct policy_event *ev, struct policy_actions *acts)
{
    struct err e = {0};
    if (policy_step(j->policy, ev, acts, &e) == ERR_OK)
        return;
    fprintf(stderr, "decision_quality: %s\n", e.msg);
    abort();
}

static void open_law(struct judge_state *j, enum policy_kind kind)
{
    struct policy_settings s = policy_settings_default();
    struct policy_actions acts;
    struct err e = {0};
    s.kind = kind;
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.max_units = 0;
    s.drift_threshold = 0;
    s.bound = BOUND;
    s.cooldown_units = s.window;
    if (policy_open(&j->policy, &s, &e) != ERR_OK)
        abort();
    struct policy_event ev = {.kind = EVENT_CHAMPION, .now_us = 1};
    ev.champion = revision(1);
    feed(j, &ev, &acts);
    ev = (struct policy_event){.kind = EVENT_START, .now_us = 1};
    ev.start = (struct policy_start){.experiment = STR("x"), .challenger = revision(2)};
    feed(j, &ev, &acts);
}

static struct policy_row row_of(struct judge_state *j, const struct request *q, bool is_challenger)
{
    uint64_t at = ++j->n;
    return (struct policy_row){.source = 1,
                               .admission = at,
                               .row = at,
                               .revision = is_challenger ? 2 : 1,
                               .experiment = STR("x"),
                               .stratum = q->is_hard ? STR("hard") : STR("easy"),
                               .propensity = 0.5,
                               .is_scored = true,
                               .reward = q->reward[is_challenger],
                               .completion_tokens = 100};
}

static bool has(const struct policy_actions *acts, enum policy_action_kind kind)
{
    for (uint32_t i = 0; i < acts->n; i++)
        if (acts->a[i].kind == kind)
            return true;
    return false;
}

static void start_canary(struct judge_state *j)
{
    open_law(j, POLICY_CANARY);
}

static bool add_canary(struct judge_state *j, const struct request *q)
{
    struct policy_actions acts;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = 1000000};
    ev.row = row_of(j, q, q->is_challenger);
    feed(j, &ev, &acts);
    return has(&acts, ACTION_ROLLBACK);
}

static void start_threshold(struct judge_state *j)
{
    open_law(j, POLICY_THRESHOLD);
}

/* It has no trial: the new revision serves everything, and the act is to step away from it. */
static bool add_threshold(struct judge_state *j, const struct request *q)
{
    struct policy_actions acts;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = 1000000};
    ev.row = row_of(j, q, true);
    ev.row.experiment = STR("");
    feed(j, &ev, &acts);
    return has(&acts, ACTION_START_CANARY);
}

/* The peers' way. */

static void start_nothing(struct judge_state *j)
{
    (void)j;
}

/* Standard score of the rank sum, ties corrected; negative: the challenger's points are lower. */
static double rank_sum_z(const struct points *p, int n)
{
    double below = 0.0, ties = 0.0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            below += p->value[1][i] > p->value[0][k];
            below += 0.5 * (p->value[1][i] == p->value[0][k]);
        }
    for (int v = 0; v <= POINT; v++) { /* points are multiples of 1/POINT */
        double t = 0.0;
        for (int i = 0; i < n; i++)
            t += (lround(p->value[0][i] * POINT) == v) + (lround(p->value[1][i] * POINT) == v);
        ties += t * t * t - t;
    }
    double m = 2.0 * n;
    double variance = (double)n * n / 12.0 * (m + 1.0 - ties / (m * (m - 1.0)));
    return variance > 0.0 ? (below - 0.5 * n * n) / sqrt(variance) : 0.0;
}

static bool add_kayenta(struct judge_state *j, const struct request *q)
{
    struct points *p = &j->points;
    int arm = q->is_challenger;
    p->sum[arm] += q->reward[arm];
    if (++p->in_point[arm] == POINT) {
        if (p->n[arm] < POINTS)
            p->value[arm][p->n[arm]++] = p->sum[arm] / POINT;
        p->sum[arm] = 0.0;
        p->in_point[arm] = 0;
    }
    int n = p->n[0] < p->n[1] ? p->n[0] : p->n[1];
    if (n < p->looked_at + LOOK_EVERY)
        return false;
    p->looked_at = n;
    return rank_sum_z(p, n) < -KAYENTA_Z;
}

static bool add_flagger(struct judge_state *j, const struct request *q)
{
    if (!q->is_challenger || j->n_checks == CHECKS)
        return false;
    j->sum += q->reward[1];
    if (++j->n_rows < CHECK_ROWS)
        return false;
    j->n_checks++;
    j->n_failed += j->sum / CHECK_ROWS < BOUND;
    j->n_rows = 0;
    j->sum = 0.0;
    return j->n_failed >= FAILED_CHECKS;
}

static const struct judge JUDGES[] = {
    {"canary", start_canary, add_canary},
    {"threshold", start_threshold, add_threshold},
    {"Kayenta-like", start_nothing, add_kayenta},
    {"Flagger-like", start_nothing, add_flagger},
};
enum { N_JUDGES = sizeof JUDGES / sizeof *JUDGES };

/* Running. */

static void make_traffic(const struct scenario *x, uint64_t seed, struct request *out)
{
    struct rng r;
    rng_seed(&r, seed);
    for (int i = 0; i < REQUESTS; i++) {
        double share = x->is_shifted && i >= SHIFT_AT ? 2.0 * SHARE_HARD : SHARE_HARD;
        struct request *q = &out[i];
        q->is_challenger = rng_uniform(&r) < 0.5;
        q->is_hard = rng_uniform(&r) < share;
        double mean = q->is_hard ? HARD : EASY, luck = rng_uniform(&r);
        q->reward[0] = luck < mean;
        q->reward[1] = luck < mean - x->drop;
    }
}

/* Requests until the judge rolls back; 0 = it never did. */
static int run(const struct judge *judge, const struct request *traffic)
{
    static struct judge_state j;
    int at = 0;
    memset(&j, 0, sizeof j);
    judge->start(&j);
    for (int i = 0; i < REQUESTS && !at; i++)
        if (judge->add(&j, &traffic[i]))
            at = i + 1;
    policy_close(j.policy);
    return at;
}

struct cell {
    double share; /* of runs rolled back */
    int median;   /* requests to it, of those runs */
};

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static struct cell summarise(int *at, int n)
{
    qsort(at, (size_t)n, sizeof *at, by_value);
    int n_never = 0;
    while (n_never < n && at[n_never] == 0)
        n_never++;
    int n_acted = n - n_never;
    return (struct cell){(double)n_acted / n, n_acted ? at[n_never + n_acted / 2] : 0};
}

static void print_table(struct cell cell[N_JUDGES][N_SCENARIOS], int runs)
{
    printf("%d runs a cell. Up to \"harder traffic\": false rollbacks. Then: missed regressions, "
           "median requests to the rollback.\n\n| judge |",
           runs);
    for (int s = 0; s < N_SCENARIOS; s++)
        printf(" %s |", SCENARIOS[s].name);
    printf("\n|---|");
    for (int s = 0; s < N_SCENARIOS; s++)
        printf("---|");
    for (int i = 0; i < N_JUDGES; i++) {
        printf("\n| %s |", JUDGES[i].name);
        for (int s = 0; s < N_SCENARIOS; s++) {
            const struct cell *c = &cell[i][s];
            if (s < N_NULL)
                printf(" %.1f%% |", 100.0 * c->share);
            else
                printf(" %.1f%%, %d |", 100.0 * (1.0 - c->share), c->median);
        }
    }
    printf("\n");
}

static void print_json(struct cell cell[N_JUDGES][N_SCENARIOS], int runs)
{
    printf("{\"runs\":%d,\"requests\":%d,\"judges\":[", runs, REQUESTS);
    for (int i = 0; i < N_JUDGES; i++) {
        printf("%s{\"judge\":\"%s\",\"scenarios\":[", i ? "," : "", JUDGES[i].name);
        for (int s = 0; s < N_SCENARIOS; s++)
            printf("%s{\"scenario\":\"%s\",\"drop\":%g,\"rolled_back\":%.4f,\"median\":%d}",
                   s ? "," : "", SCENARIOS[s].name, SCENARIOS[s].drop, cell[i][s].share,
                   cell[i][s].median);
        printf("]}");
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct request traffic[REQUESTS];
    struct cell cell[N_JUDGES][N_SCENARIOS];
    bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    long runs = argc > 1 + is_json ? strtol(argv[1 + is_json], NULL, 10) : RUNS;
    if (runs < 1 || runs > 100000)
        return fprintf(stderr, "usage: decision_quality [--json] [runs, 1 to 100000]\n"), 2;
    int *at[N_JUDGES];
    for (int i = 0; i < N_JUDGES; i++)
        if (!(at[i] = calloc((size_t)runs, sizeof(int))))
            return 1;
    for (int s = 0; s < N_SCENARIOS; s++) {
        for (int k = 0; k < runs; k++) {
            make_traffic(&SCENARIOS[s], (uint64_t)k + 1, traffic);
            for (int i = 0; i < N_JUDGES; i++)
                at[i][k] = run(&JUDGES[i], traffic);
        }
        for (int i = 0; i < N_JUDGES; i++)
            cell[i][s] = summarise(at[i], (int)runs);
    }
    (is_json ? print_json : print_table)(cell, (int)runs);
    for (int i = 0; i < N_JUDGES; i++)
        free(at[i]);
    return 0;
}
