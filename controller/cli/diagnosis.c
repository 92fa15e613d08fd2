/* One rule a layer, in the order in which a request passes them; a rule adds one finding. */
#include "controller/cli/diagnosis.h"

#include "controller/cli/readings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* From where on something is worth a word; chosen, not derived. */
#define BUSY            0.9
#define COMM_SHARE      0.25
#define UNSCORED_SHARE  0.5
#define OLD_SECONDS     60.0
#define LEAST_HIT_SHARE 0.2
enum { MANY_ROWS = 1000 };

const char *health_name(enum health h)
{
    static const char *const names[] = {"ok", "warn", "bad"};
    return names[h];
}

enum health diagnosis_worst(const struct diagnosis *d)
{
    enum health worst = HEALTH_OK;
    for (uint32_t i = 0; i < d->n; i++)
        worst = d->finding[i].health > worst ? d->finding[i].health : worst;
    return worst;
}

struct examination {
    const struct looks *looks;
    struct arena *arena;
    struct diagnosis *out;
};

/* What is to be done, and then what was found. */
static void PRINTF_LIKE(5, 6) add(const struct examination *x, const char *layer,
                                  enum health health, const char *advice, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    struct str kept = arena_printf(x->arena, "%s", what);
    if (x->out->n < MAX_FINDINGS)
        x->out->finding[x->out->n++] =
            (struct finding){layer, health, kept.p ? kept.p : "", advice};
}

static double now(const struct examination *x, enum process p, const char *name)
{
    return readings_sum(x->looks->after.text[p], name);
}

/* By how much a counter grew; one that fell began anew. */
static double grown(const struct examination *x, enum process p, const char *name)
{
    double before = readings_sum(x->looks->before.text[p], name), after = now(x, p, name);
    return after >= before ? after - before : after;
}

static void device(const struct examination *x)
{
    const double waiting = now(x, PROCESS_ENGINE, "milepost_requests_waiting");
    const double running = now(x, PROCESS_ENGINE, "milepost_requests_running");
    const double steps = grown(x, PROCESS_ENGINE, "milepost_step_seconds_count");
    const double spent = grown(x, PROCESS_ENGINE, "milepost_step_seconds_sum");
    const double tokens = grown(x, PROCESS_ENGINE, "milepost_step_tokens_sum");
    const double generated = grown(x, PROCESS_ENGINE, "milepost_generation_tokens_total");
    const double busy = fmin(spent / x->looks->seconds, 1);
    if (steps == 0 && running + waiting == 0) {
        add(x, "device", HEALTH_OK, "", "idle: no request in %.0f s", x->looks->seconds);
        return;
    }
    if (steps == 0) {
        add(x, "device", HEALTH_BAD,
            "the device hangs, or one step takes longer: see the engine's log",
            "%.0f running and %.0f waiting, and no step ended in %.0f s", running, waiting,
            x->looks->seconds);
        return;
    }
    const char *advice = "";
    if (waiting > 0 && busy > BUSY)
        advice = "requests wait for the device: raise engine.max_running, lower max_new_tokens, or "
                 "add an engine";
    else if (waiting > 0)
        advice = "requests wait while the device idles: raise engine.max_running";
    add(x, "device", *advice ? HEALTH_WARN : HEALTH_OK, advice,
        "computes %.0f%% of the time: %.0f steps/s of %.1f ms and %.1f tokens; %.0f tokens/s "
        "generated, %.0f running, %.0f waiting",
        100 * busy, steps / x->looks->seconds, 1e3 * spent / steps, tokens / steps,
        generated / x->looks->seconds, running, waiting);
}

static void drafts(const struct examination *x)
{
    const double given = grown(x, PROCESS_ENGINE, "milepost_draft_tokens_total");
    const double right = grown(x, PROCESS_ENGINE, "milepost_draft_accepted_tokens_total");
    if (given > 0)
        add(x, "guesses", HEALTH_OK, "", "%.0f tokens guessed ahead, %.0f%% of them right", given,
            100 * right / given);
}

static void communication(const struct examination *x)
{
    const double comm = grown(x, PROCESS_ENGINE, "milepost_comm_seconds_total");
    const double spent = grown(x, PROCESS_ENGINE, "milepost_step_seconds_sum");
    const bool is_dear = comm > COMM_SHARE * spent;
    if (comm == 0)
        add(x, "ranks", HEALTH_OK, "", "%s", "nothing exchanged: one process computes the model");
    else
        add(x, "ranks", is_dear ? HEALTH_WARN : HEALTH_OK,
            is_dear ? "fewer ranks (engine.tp_size), or a faster way between them" : "",
            "%.0f%% of the steps' time goes to the other ranks", 100 * comm / spent);
}

static void kv_cache(const struct examination *x)
{
    const double preempted = grown(x, PROCESS_ENGINE, "milepost_preemptions_total");
    const double evicted = grown(x, PROCESS_ENGINE, "milepost_prefix_cache_evicted_blocks_total");
    const double asked = grown(x, PROCESS_ENGINE, "milepost_prefix_cache_query_tokens_total");
    const double hits = grown(x, PROCESS_ENGINE, "milepost_prefix_cache_hit_tokens_total");
    const char *advice = "";
    if (preempted > 0)
        advice = "too little room: raise engine.kv_memory_mib, or set engine.kv_dtype to int8, or "
                 "lower engine.max_running";
    else if (evicted > 0 && hits < LEAST_HIT_SHARE * asked)
        advice = "prefixes are forgotten before they are used again: raise engine.kv_memory_mib";
    add(x, "kv cache", *advice ? HEALTH_WARN : HEALTH_OK, advice,
        "%.0f%% held by requests; %.0f preempted; %.0f of %.0f prompt tokens found, %.0f blocks "
        "forgotten",
        100 * now(x, PROCESS_ENGINE, "milepost_kv_cache_usage_ratio"), preempted, hits, asked,
        evicted);
}

static void outbox(const struct examination *x)
{
    const double dropped = grown(x, PROCESS_ENGINE, "milepost_outbox_dropped_total");
    const double rows = now(x, PROCESS_ENGINE, "milepost_outbox_rows");
    const double before =
        readings_sum(x->looks->before.text[PROCESS_ENGINE], "milepost_outbox_rows");
    const bool grows = rows > MANY_ROWS && rows > before;
    if (dropped > 0)
        add(x, "outbox", HEALTH_BAD,
            "answers are lost to the loop: see the disk of loop.outbox, and loop.outbox_max_mib",
            "%.0f outputs dropped in %.0f s, %.0f kept", dropped, x->looks->seconds, rows);
    else
        add(x, "outbox", grows ? HEALTH_WARN : HEALTH_OK,
            grows ? "nobody commits as fast as the engine answers: see verifier and controller"
                  : "",
            "%.0f outputs wait for their commit, none dropped", rows);
}

static void verifier(const struct examination *x)
{
    const struct look *l = &x->looks->after;
    const double received = grown(x, PROCESS_VERIFIER, "milepost_verify_received_total");
    const double dropped = grown(x, PROCESS_VERIFIER, "milepost_verify_dropped_total");
    const double unscored = grown(x, PROCESS_VERIFIER, "milepost_verify_unscored_total");
    const double broken = readings_sum(l->text[PROCESS_VERIFIER], "milepost_remote_breaker_open");
    const struct str reason =
        readings_most_grown(x->looks->before.text[PROCESS_VERIFIER], l->text[PROCESS_VERIFIER],
                            "milepost_verify_unscored_total", "reason");
    const char *advice = "";
    if (broken > 0)
        advice = "a reward model or judge does not answer: see verify.remote in the verifier's log";
    else if (dropped > 0)
        advice = "frames are dropped and sent again: milepost_verify_dropped_total says why";
    else if (received > 0 && unscored > UNSCORED_SHARE * received)
        advice = "most outputs cannot be judged: 'milepost scores' shows why";
    add(x, "verifier", *advice ? HEALTH_WARN : HEALTH_OK, advice,
        "%.0f outputs received, %.0f unscored%s" STR_FMT ", %.0f held, %.0f dropped", received,
        unscored, reason.n ? " mostly of " : "", STR_ARG(reason),
        now(x, PROCESS_VERIFIER, "milepost_queue_depth"), dropped);
}

static void controller(const struct examination *x)
{
    const struct str text = x->looks->after.text[PROCESS_CONTROLLER];
    const double failures = grown(x, PROCESS_CONTROLLER, "milepost_commit_failures_total");
    const double oldest = now(x, PROCESS_CONTROLLER, "milepost_oldest_unscored_seconds");
    const double desired = now(x, PROCESS_CONTROLLER, "milepost_desired_version");
    const double applied = readings_least(text, "milepost_engine_applied_version");
    enum health health = HEALTH_WARN;
    const char *advice = "";
    if (failures > 0) {
        health = HEALTH_BAD;
        advice = "scores are not committed, and nothing is decided: see the disk of the database";
    } else if (applied < desired)
        advice = "an engine does not apply what is desired: 'milepost status' says which";
    else if (now(x, PROCESS_CONTROLLER, "milepost_kill_switch") > 0)
        advice = "the kill switch is on: 'milepost resume --all' lets the routes go on";
    else if (oldest > OLD_SECONDS)
        advice = "outputs wait for a score: see the verifier";
    add(x, "controller", *advice ? health : HEALTH_OK, advice,
        "%.0f scores committed, %.0f commits failed, oldest output without a score %.0f s",
        grown(x, PROCESS_CONTROLLER, "milepost_scores_total"), failures, oldest);
}

static const struct rule {
    enum process process;
    void (*examine)(const struct examination *x);
    bool is_loop; /* not of an engine alone */
} RULES[] = {
    {PROCESS_ENGINE, device, false},        {PROCESS_ENGINE, drafts, false},
    {PROCESS_ENGINE, communication, false}, {PROCESS_ENGINE, kv_cache, false},
    {PROCESS_ENGINE, outbox, true},         {PROCESS_VERIFIER, verifier, true},
    {PROCESS_CONTROLLER, controller, true},
};

static bool answered(const struct looks *l, enum process p)
{
    return l->before.text[p].p && l->after.text[p].p;
}

void diagnose(const struct looks *l, struct arena *a, struct diagnosis *out)
{
    static const char *const names[PROCESSES] = {"engine", "verifier", "controller"};
    const struct examination x = {l, a, out};
    *out = (struct diagnosis){0};
    for (int p = 0; p < (l->is_alone ? PROCESS_VERIFIER : PROCESSES); p++)
        if (!answered(l, (enum process)p))
            add(&x, names[p], HEALTH_BAD, "start it ('milepost up'), or name its address", "%s",
                "does not answer");
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (answered(l, RULES[i].process) && !(l->is_alone && RULES[i].is_loop))
            RULES[i].examine(&x);
}
