/* controller/policies/test_bench.h - one canary policy with dealt rewards; for *_test.c files only.
 *
 * Rewards are dealt evenly (no randomness): an arm of mean 0.3 earns 1 in three of ten rows. The
 * bench follows the actions as a controller would. */
#ifndef CONTROLLER_POLICIES_TEST_BENCH_H
#define CONTROLLER_POLICIES_TEST_BENCH_H

#include "common/test.h"
#include "controller/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct bench {
    struct policy *p;
    struct policy_actions acts; /* of the last event */
    uint64_t n, dealt[2];
    uint64_t now_us;
    double mean[2]; /* champion, challenger */
    double share;
    uint64_t champion, challenger;
    const char *experiment;
    const char *checks;                         /* version of the checks; NULL = not said */
    bool is_truncated, is_unscored, is_invalid; /* the challenger's outputs */
    bool is_refusal, is_repetitive, is_error, is_left;
    double length, slowness; /* its tokens and time as multiples of the champion's; 0 = 1 */
    bool is_champion_unscored;
    const char *session; /* every request's; NULL = each stands alone */
    double mean_b[2];    /* of the disjoint checks; < 0 = none */
};

static inline struct policy_settings quick(void)
{
    struct policy_settings s = policy_settings_default();
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.min_us = 0;
    s.calibration_units = 100;
    s.pair_deadline_us = 1000000;
    return s;
}

static inline struct policy_revision revision(uint64_t number, double temperature)
{
    struct policy_revision r = {.number = number};
    snprintf(r.hash, sizeof r.hash, "hash-%llu", (unsigned long long)number);
    r.knob[PARAM_TEMPERATURE] = temperature;
    r.knob[PARAM_MAX_NEW_TOKENS] = 100;
    return r;
}

static inline int feed(struct bench *b, const struct policy_event *ev)
{
    return policy_step(b->p, ev, &b->acts, NULL);
}

static inline const struct policy_action *find(const struct bench *b, enum policy_action_kind kind)
{
    for (uint32_t i = 0; i < b->acts.n; i++)
        if (b->acts.a[i].kind == kind)
            return &b->acts.a[i];
    return NULL;
}

static inline void operator_says(struct bench *b, enum policy_event_kind kind)
{
    struct policy_event ev = {.kind = kind, .now_us = b->now_us};
    assert_int_equal(feed(b, &ev), ERR_OK);
}

static inline void set_champion(struct bench *b, uint64_t number, double temperature)
{
    struct policy_event ev = {.kind = EVENT_CHAMPION, .now_us = b->now_us};
    ev.champion = revision(number, temperature);
    assert_int_equal(feed(b, &ev), ERR_OK);
    b->champion = number;
}

/* Carries out a START_CANARY that names the previous champion. */
static inline void start_revert(struct bench *b, const char *experiment)
{
    struct policy_event ev = {.kind = EVENT_START, .now_us = b->now_us};
    b->challenger = find(b, ACTION_START_CANARY)->to_revision;
    ev.start = (struct policy_start){.experiment = str_from(experiment),
                                     .challenger = revision(b->challenger, 1.0),
                                     .is_own = true,
                                     .is_revert = true};
    assert_int_equal(feed(b, &ev), ERR_OK);
    b->experiment = experiment;
    b->share = find(b, ACTION_SET_SPLIT)->share;
}

static inline int start(struct bench *b, const char *experiment, uint64_t number,
                        double temperature, bool is_now, bool is_own)
{
    struct policy_event ev = {.kind = EVENT_START, .now_us = b->now_us};
    ev.start = (struct policy_start){.experiment = str_from(experiment),
                                     .challenger = revision(number, temperature),
                                     .is_now = is_now,
                                     .is_own = is_own};
    int rc = feed(b, &ev);
    if (rc != ERR_OK)
        return rc;
    b->experiment = experiment;
    b->challenger = number;
    b->share = find(b, ACTION_SET_SPLIT)->share;
    return rc;
}

static inline void open_bench(struct bench *b, const struct policy_settings *s)
{
    struct err e = {0};
    *b = (struct bench){.now_us = 1000, .mean = {0.6, 0.6}, .mean_b = {-1.0, -1.0}};
    assert_ok(policy_open(&b->p, s, &e), &e);
    set_champion(b, 1, 1.5);
}

static inline bool deals(uint64_t i, double mean)
{
    /* Steps of the golden ratio: evenly spread, and no pattern shared between the arms. */
    double at = (double)i * 0.6180339887498949;
    return at - floor(at) < mean;
}

/* What only some tests vary. */
static inline void dress(const struct bench *b, struct policy_row *r, bool is_challenger)
{
    double length = is_challenger && b->length > 0.0 ? b->length : 1.0;
    double slowness = is_challenger && b->slowness > 0.0 ? b->slowness : 1.0;
    r->completion_tokens = (uint32_t)(40.0 * length);
    r->latency_us = (uint64_t)(500000.0 * slowness);
    r->is_refusal = is_challenger && b->is_refusal;
    r->is_repetitive = is_challenger && b->is_repetitive;
    r->session = str_from(b->session ? b->session : "");
    if ((r->is_scored_b = b->mean_b[is_challenger] >= 0.0))
        r->reward_b = deals(b->dealt[is_challenger] + 3u * is_challenger, b->mean_b[is_challenger]);
    if (is_challenger && (b->is_error || b->is_left))
        r->finish = b->is_left ? FINISH_CANCELLED : FINISH_ERROR;
}

/* One more request, committed at once. */
static inline void row(struct bench *b)
{
    bool is_challenger =
        b->challenger && floor((double)(b->n + 1) * b->share) > floor((double)b->n * b->share);
    b->n++;
    b->now_us += 100000;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = b->now_us};
    ev.row = (struct policy_row){
        .source = 9,
        .admission = b->n,
        .row = b->n,
        .revision = is_challenger ? b->challenger : b->champion,
        .experiment = str_from(b->challenger ? b->experiment : ""),
        .checks = str_from(b->checks ? b->checks : ""),
        .propensity = !b->challenger  ? 1.0
                      : is_challenger ? b->share
                                      : 1.0 - b->share,
        .is_scored = !(is_challenger ? b->is_unscored : b->is_champion_unscored),
        .reward = deals(b->dealt[is_challenger]++ + 7u * is_challenger, b->mean[is_challenger]),
        .finish = is_challenger && b->is_truncated ? FINISH_LENGTH : FINISH_STOP,
        .is_invalid = is_challenger && b->is_invalid,
    };
    dress(b, &ev.row, is_challenger);
    assert_int_equal(feed(b, &ev), ERR_OK);
    const struct policy_action *end = find(b, ACTION_ROLLBACK);
    end = end ? end : find(b, ACTION_EXPIRE);
    if (end) {
        b->challenger = 0;
        b->champion = end->to_revision;
    }
    if (find(b, ACTION_PROMOTE)) {
        b->champion = b->challenger;
        b->challenger = 0;
        b->mean[0] = b->mean[1];
    }
    if (find(b, ACTION_SET_SPLIT))
        b->share = find(b, ACTION_SET_SPLIT)->share;
}

/* Rows until an action of this kind, 0 = not within the limit. */
static inline int rows_until(struct bench *b, enum policy_action_kind kind, int limit)
{
    for (int i = 1; i <= limit; i++) {
        row(b);
        if (find(b, kind))
            return i;
    }
    return 0;
}

static inline struct policy_view view_of(const struct bench *b)
{
    struct policy_view v;
    policy_view(b->p, &v);
    return v;
}

#endif
