/* Distributions are kept whole: a million gaps are 8 MB, and exact quantiles need no argument. */
#include "controller/cli/bench/summary.h"

#include "common/json.h"

#include <math.h>
#include <stdlib.h>

static void push(struct series *s, double v)
{
    if (s->n < s->cap)
        s->v[s->n++] = v;
}

static int reserve(struct series *s, size_t n, struct err *e)
{
    *s = (struct series){.v = calloc(n > 0 ? n : 1, sizeof *s->v), .cap = n};
    return s->v != NULL ? ERR_OK : err_set(e, ERR_NOMEM, "%zu numbers", n);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double series_at(const struct series *s, double q)
{
    if (s->n == 0)
        return (double)NAN;
    double at = q * (double)(s->n - 1);
    size_t below = (size_t)at, above = below + 1 < s->n ? below + 1 : below;
    return s->v[below] + (at - (double)below) * (s->v[above] - s->v[below]);
}

double series_mean(const struct series *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += s->v[i];
    return s->n > 0 ? sum / (double)s->n : (double)NAN;
}

static double ms_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / 1e3 : 0;
}

static bool is_within(double limit, double value)
{
    return limit <= 0 || isnan(value) || value <= limit;
}

static void add_turn(struct summary *s, const struct shot *shot, double ttft_ms, double e2e_ms)
{
    uint32_t i = shot->turn < SUMMARY_MAX_TURNS ? shot->turn : SUMMARY_MAX_TURNS - 1;

    s->turn[i].n++;
    s->turn[i].ttft_sum_ms += ttft_ms;
    s->turn[i].e2e_sum_ms += e2e_ms;
    s->turn[i].prompt_tokens += shot->prompt_tokens;
    s->turn[i].cached_tokens += shot->cached_tokens;
    if (i + 1 > s->n_turns)
        s->n_turns = i + 1;
}

static void add(struct summary *s, const struct shot *shot, const struct slo *slo)
{
    double ttft_ms = ms_between(shot->due_us, shot->first_us);
    double e2e_ms = ms_between(shot->due_us, shot->end_us), tpot_ms = (double)NAN;

    s->n_ok++;
    s->prompt_tokens += shot->prompt_tokens;
    s->cached_tokens += shot->cached_tokens;
    s->completion_tokens += shot->completion_tokens;
    push(&s->ttft, ttft_ms);
    push(&s->e2e, e2e_ms);
    for (uint32_t i = 0; i < shot->n_gap; i++)
        push(&s->gap, shot->gap_us[i] / 1e3);
    if (shot->completion_tokens > 1) {
        tpot_ms = ms_between(shot->first_us, shot->end_us) / (shot->completion_tokens - 1);
        push(&s->tpot, tpot_ms);
    }
    s->n_good += is_within(slo->ttft_ms, ttft_ms) && is_within(slo->tpot_ms, tpot_ms) &&
                 is_within(slo->e2e_ms, e2e_ms);
    add_turn(s, shot, ttft_ms, e2e_ms);
}

static int reserve_all(struct summary *s, const struct shot *shots, uint32_t n, struct err *e)
{
    size_t n_gap = 0;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        n_gap += shots[i].n_gap;
    TRY(reserve(&s->ttft, n, e));
    TRY(reserve(&s->tpot, n, e));
    TRY(reserve(&s->e2e, n, e));
    TRY(reserve(&s->gap, n_gap, e));
out:
    return rc;
}

static void sort_all(struct summary *s)
{
    struct series *all[] = {&s->ttft, &s->gap, &s->tpot, &s->e2e};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        qsort(all[i]->v, all[i]->n, sizeof *all[i]->v, by_value);
}

int summary_make(struct summary *s, const struct shot *shots, uint32_t n, uint64_t begin_us,
                 const struct slo *slo, struct err *e)
{
    uint64_t end_us = begin_us;

    *s = (struct summary){0};
    int rc = reserve_all(s, shots, n, e);
    if (rc != ERR_OK) {
        summary_free(s);
        return rc;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (shots[i].start_us == 0)
            continue;
        s->n_sent++;
        end_us = shots[i].end_us > end_us ? shots[i].end_us : end_us;
        if (shots[i].is_ok) {
            add(s, &shots[i], slo);
            continue;
        }
        s->n_failed++;
        s->first_error = s->first_error != NULL ? s->first_error : shots[i].error;
    }
    s->seconds = (double)(end_us - begin_us) / 1e6;
    sort_all(s);
    return ERR_OK;
}

void summary_free(struct summary *s)
{
    free(s->ttft.v);
    free(s->gap.v);
    free(s->tpot.v);
    free(s->e2e.v);
    *s = (struct summary){0};
}

static json_t *distribution(const struct series *s)
{
    static const struct {
        const char *name;
        double q;
    } QUANTILES[] = {{"min", 0},    {"p50", 0.5},  {"p90", 0.9},
                     {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    json_t *o = json_object();

    json_object_set_new(o, "n", json_integer((json_int_t)s->n));
    json_object_set_new(o, "mean", json_num(series_mean(s)));
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++)
        json_object_set_new(o, QUANTILES[i].name, json_num(series_at(s, QUANTILES[i].q)));
    return o;
}

static json_t *turns_json(const struct summary *s)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < s->n_turns; i++) {
        double n = s->turn[i].n > 0 ? s->turn[i].n : 1;
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:f, s:f, s:I, s:I}", "turn", (int)i + 1, "n",
                                        (int)s->turn[i].n, "ttft_ms", s->turn[i].ttft_sum_ms / n,
                                        "e2e_ms", s->turn[i].e2e_sum_ms / n, "prompt_tokens",
                                        (json_int_t)s->turn[i].prompt_tokens, "cached_tokens",
                                        (json_int_t)s->turn[i].cached_tokens));
    }
    return list;
}

json_t *summary_json(const struct summary *s, const struct slo *slo)
{
    double seconds = s->seconds > 0 ? s->seconds : (double)NAN;
    json_t *o =
        json_pack("{s:{s:i, s:i, s:i}, s:f, s:{s:I, s:I, s:I}, s:{s:o, s:o, s:o}}", "requests",
                  "sent", (int)s->n_sent, "ok", (int)s->n_ok, "failed", (int)s->n_failed, "seconds",
                  s->seconds, "tokens", "prompt", (json_int_t)s->prompt_tokens, "cached",
                  (json_int_t)s->cached_tokens, "completion", (json_int_t)s->completion_tokens,
                  "throughput", "requests_s", json_num(s->n_ok / seconds), "output_tok_s",
                  json_num((double)s->completion_tokens / seconds), "total_tok_s",
                  json_num((double)(s->completion_tokens + s->prompt_tokens) / seconds));

    json_object_set_new(o, "ttft_ms", distribution(&s->ttft));
    json_object_set_new(o, "itl_ms", distribution(&s->gap));
    json_object_set_new(o, "tpot_ms", distribution(&s->tpot));
    json_object_set_new(o, "e2e_ms", distribution(&s->e2e));
    json_object_set_new(
        o, "goodput",
        json_pack("{s:f, s:f, s:f, s:i, s:o, s:o}", "slo_ttft_ms", slo->ttft_ms, "slo_tpot_ms",
                  slo->tpot_ms, "slo_e2e_ms", slo->e2e_ms, "requests", (int)s->n_good, "requests_s",
                  json_num(s->n_good / seconds), "share",
                  json_num(s->n_sent > 0 ? (double)s->n_good / s->n_sent : (double)NAN)));
    json_object_set_new(o, "turns", turns_json(s));
    if (s->first_error != NULL)
        json_object_set_new(o, "first_error", json_str(str_from(s->first_error)));
    return o;
}
