/* Opens the checks of a route and runs them over one output: the local ones first, then, unless a
 * gate has already failed, the questions to what is remote. Read-only after open, so that every
 * worker shares one set. The CPU budget stops a slow output between checks; each check bounds
 * itself inside. */
#include "verifier/check_set.h"

#include "common/hash.h"
#include "verifier/compose.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_CPU_BUDGET_US = 5000000, CPU_CLOCK_US = 1000, SAMPLE_SALT = 0xb };

struct entry {
    const struct check_ops *ops;
    void *state;
    struct str id;
    json_t *params, *when; /* owned; when NULL = always */
    double weight;
    bool is_gate, fails_on_error;
    bool is_b; /* judges `sample` of the outputs, chosen by their id */
    double sample;
    uint64_t timeout_us;
};

struct question { /* a remote check of one output; in the run's arena */
    struct remote_job job;
    struct check_run *run;
    const struct entry *entry;
    struct check_result *result;
    struct check_verdict verdict;
    struct mono start;
};

struct check_set {
    struct str name;
    struct entry entry[SCORE_MAX_CHECKS];
    uint32_t n;
    bool has_remote;
    char version[SHA256_HEX];
    struct arena arena;
};

static bool is_plain(const json_t *v)
{
    return json_is_string(v) || json_is_number(v) || json_is_boolean(v);
}

static int check_when(const json_t *when, struct err *e)
{
    const char *key;
    json_t *v;
    if (when && !json_is_object(when))
        return err_set(e, ERR_INVALID, "when: found %s, allowed: {metadata key: value}",
                       json_type_name(when));
    json_object_foreach((json_t *)when, key, v)
    {
        bool fits = is_plain(v) || (json_is_array(v) && json_array_size(v) > 0);
        for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++)
            fits = fits && is_plain(json_array_get(v, i));
        if (!fits)
            return err_set(e, ERR_INVALID, "when.%.40s: found %s, allowed: a value or a list", key,
                           json_type_name(v));
    }
    return ERR_OK;
}

static int parse_params(struct entry *c, struct str text, struct err *e)
{
    int rc = json_parse(text.n ? text : STR("{}"), JSON_UNIQUE_KEYS, &c->params, e);
    if (rc != ERR_OK)
        return err_wrap(e, "parameters");
    c->when = json_incref(json_object_get(c->params, "when"));
    json_object_del(c->params, "when");
    return check_when(c->when, e);
}

static int unknown_kind(struct str kind, struct err *e)
{
    struct buf known;
    buf_init(&known, 4 * KiB);
    check_kinds_text(&known);
    int rc = err_set(e, ERR_INVALID, "kind: found '" STR_FMT "', allowed: " STR_FMT,
                     STR_ARG(str_slice(kind, 0, 40)), STR_ARG(buf_str(&known)));
    buf_free(&known);
    return rc;
}

static int open_entry(struct check_set *set, const struct check_config *config, struct err *e)
{
    struct entry *c = &set->entry[set->n];
    *c = (struct entry){.ops = check_find(config->kind),
                        .weight = config->weight,
                        .is_gate = config->gate,
                        .is_b = config->set == CHECK_SET_B,
                        .sample = config->sample,
                        .fails_on_error = config->on_error == 1,
                        .timeout_us = (uint64_t)config->timeout_ms * 1000};
    set->n++; /* from here on close releases what there is */
    if (!c->ops)
        return unknown_kind(config->kind, e);
    set->has_remote = set->has_remote || c->ops->ask;
    c->id = arena_str(&set->arena, config->id.n ? config->id : config->kind);
    if (!c->id.p)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    for (uint32_t i = 0; i + 1 < set->n; i++)
        if (str_eq(set->entry[i].id, c->id))
            return err_set(e, ERR_INVALID, "id: found '" STR_FMT "' twice, allowed: once",
                           STR_ARG(c->id));
    int rc = parse_params(c, config->params, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at at = json_root(c->params);
    return c->ops->open(&c->state, &at, e);
}

static json_t *describe(const struct entry *c)
{
    const char *content = c->ops->content ? c->ops->content(c->state) : NULL;
    json_t *sample = c->is_b ? json_real(c->sample) : NULL;
    return json_pack("{s:s%,s:s,s:i,s:O,s:O?,s:s*,s:f,s:b,s:b,s:I,s:o*}", "id", c->id.p, c->id.n,
                     "kind", c->ops->kind, "code", (int)c->ops->code_version, "params", c->params,
                     "when", c->when, "content", content, "weight", c->weight, "gate", c->is_gate,
                     "fails", c->fails_on_error, "timeout_us", (json_int_t)c->timeout_us, "set_b",
                     sample);
}

static int hash_set(struct check_set *set, struct err *e)
{
    json_t *all = json_array();
    struct buf text;
    buf_init(&text, MiB);
    buf_printf(&text, "compose %d\n", COMPOSE_VERSION);
    for (uint32_t i = 0; i < set->n; i++)
        json_array_append_new(all, describe(&set->entry[i]));
    int rc = json_array_size(all) == set->n ? json_write_canonical(all, &text, e)
                                            : err_set(e, ERR_NOMEM, "no memory for a check set");
    if (rc == ERR_OK)
        rc = buf_check(&text, "check set", e);
    if (rc == ERR_OK)
        sha256_hex(buf_str(&text), set->version);
    buf_free(&text);
    json_decref(all);
    return rc;
}

int check_set_open(struct check_set **out, const struct route_config *route, struct err *e)
{
    *out = NULL;
    struct check_set *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(e, ERR_NOMEM, "no memory for a check set");
    arena_init(&set->arena, MiB);
    set->name = arena_str(&set->arena, route->name);
    const struct check_config *config = route->checks.item;
    int rc = set->name.p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a check set");
    if (route->checks.n > SCORE_MAX_CHECKS)
        rc = err_set(e, ERR_INVALID, "routes[" STR_FMT "].checks: found %u, allowed: at most %d",
                     STR_ARG(route->name), route->checks.n, SCORE_MAX_CHECKS);
    for (uint32_t i = 0; i < route->checks.n && rc == ERR_OK; i++) {
        rc = open_entry(set, &config[i], e);
        if (rc != ERR_OK)
            err_wrap(e, "routes[" STR_FMT "].checks[%u] (" STR_FMT ")", STR_ARG(route->name), i,
                     STR_ARG(config[i].id.n ? config[i].id : config[i].kind));
    }
    if (rc == ERR_OK)
        rc = hash_set(set, e);
    if (rc != ERR_OK) {
        check_set_close(set);
        return rc;
    }
    *out = set;
    return ERR_OK;
}

void check_set_close(struct check_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->n; i++) {
        struct entry *c = &set->entry[i];
        if (c->state)
            c->ops->close(c->state);
        json_decref(c->params);
        json_decref(c->when);
    }
    arena_free(&set->arena);
    free(set);
}

const char *check_set_version(const struct check_set *set)
{
    return set->version;
}

struct str check_set_name(const struct check_set *set)
{
    return set->name;
}

size_t check_set_count(const struct check_set *set)
{
    return set->n;
}

int check_set_attach(const struct check_set *set, struct remote *remote, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; i < set->n && rc == ERR_OK; i++) {
        const struct entry *c = &set->entry[i];
        char name[160];
        if (!c->ops->lane)
            continue;
        snprintf(name, sizeof name, STR_FMT "/" STR_FMT, STR_ARG(set->name), STR_ARG(c->id));
        rc = remote_attach(remote, c->ops->lane(c->state), str_from(name), e);
    }
    return rc;
}

static bool matches(const json_t *wanted, const json_t *found)
{
    if (!json_is_array(wanted))
        return json_equal(wanted, found);
    for (size_t i = 0; i < json_array_size(wanted); i++)
        if (json_equal(json_array_get(wanted, i), found))
            return true;
    return false;
}

/* The same outputs for every verifier: the sample is a function of the request's id. */
static bool is_sampled(const struct entry *c, const struct output *o)
{
    uint64_t hash = hash64(o->request_id.p, o->request_id.n, SAMPLE_SALT);
    return !c->is_b || (double)(hash >> 11) * 0x1p-53 < c->sample;
}

static bool applies(const struct entry *c, const struct check_run *run)
{
    const char *key;
    json_t *wanted;
    const json_t *metadata = run->item.metadata;
    if (!is_sampled(c, run->output))
        return false;
    json_object_foreach(c->when, key, wanted)
    {
        const json_t *found = json_object_get(metadata, key);
        if (!found || !matches(wanted, found))
            return false;
    }
    return true;
}

/* CPU time of this thread, asked for only when it may have moved by a millisecond: the question
 * costs more than most checks. Never ahead of the clock. */
struct cpu_clock {
    uint64_t cpu_us;
    struct mono asked;
};

static uint64_t cpu_now(struct cpu_clock *c, struct mono now)
{
    if (c->asked.us == 0 || mono_since_us(c->asked, now) >= CPU_CLOCK_US)
        *c = (struct cpu_clock){check_cpu_us(), now};
    return c->cpu_us;
}

static struct check_verdict run_entry(const struct entry *c, struct check_item *item,
                                      uint64_t cpu_us, uint64_t budget_end_us)
{
    if (cpu_us > budget_end_us)
        return check_unscored("budget");
    uint64_t end = c->timeout_us ? cpu_us + c->timeout_us : budget_end_us;
    item->cpu_deadline_us = end < budget_end_us ? end : budget_end_us;
    return c->ops->run(c->state, item);
}

static void keep_result(const struct entry *c, const struct check_verdict *v, uint64_t duration_us,
                        struct check_result *to)
{
    bool fails = v->outcome == SCORE_UNSCORED && c->fails_on_error;
    *to = (struct check_result){.id = c->id,
                                .kind = str_from(c->ops->kind),
                                .outcome = fails ? SCORE_FAIL : v->outcome,
                                .value = v->outcome == SCORE_UNSCORED ? 0 : v->value,
                                .weight = c->weight,
                                .is_gate = c->is_gate,
                                .is_b = c->is_b,
                                .duration_us = duration_us,
                                .reason = str_from(v->reason)};
}

static void copy_key(const struct check_set *set, const struct output *o, struct score *s)
{
    *s = (struct score){.check_set = set->name,
                        .version = str_from(set->version),
                        .engine = o->engine,
                        .request_id = o->request_id,
                        .epoch = o->epoch,
                        .seq = o->seq,
                        .choice = o->choice};
}

/* A client that left, or an engine's failure, says nothing about the parameters' quality. */
static bool is_ended_from_outside(const struct output *o)
{
    return str_eq_c(o->finish_reason, "cancelled") || str_eq_c(o->finish_reason, "error");
}

static struct check_result *add_result(const struct check_run *run, const struct entry *c,
                                       const struct check_verdict *v, uint64_t duration_us)
{
    struct check_result *r = &run->score->check[run->score->n_check++];
    keep_result(c, v, duration_us, r);
    return r;
}

/* One check that applies; how long it took by the clock. */
static void run_one(struct check_run *run, const struct entry *c, struct cpu_clock *cpu,
                    uint64_t budget_end_us)
{
    struct check_verdict v = check_unscored(run->refusal);
    if (c->ops->ask) {
        add_result(run, c, &v, 0);
        return;
    }
    struct mono start = clock_mono(run->clock);
    v = run_entry(c, &run->item, cpu_now(cpu, start), budget_end_us);
    add_result(run, c, &v, mono_since_us(start, clock_mono(run->clock)));
}

static bool is_slice_over(const struct check_run *run, struct cpu_clock *cpu, uint64_t begun_us)
{
    return run->slice_us && cpu_now(cpu, clock_mono(run->clock)) >= begun_us + run->slice_us;
}

static void run_local(struct check_run *run)
{
    struct cpu_clock cpu = {0};
    uint64_t begun_us = cpu_now(&cpu, clock_mono(run->clock));
    uint64_t used_us = run->cpu_used_us;
    uint64_t budget_end_us =
        begun_us + (used_us < OUTPUT_CPU_BUDGET_US ? OUTPUT_CPU_BUDGET_US - used_us : 0);
    while (run->next < run->set->n && !run->is_heavy) {
        const struct entry *c = &run->set->entry[run->next++];
        if (!applies(c, run))
            continue;
        run_one(run, c, &cpu, budget_end_us);
        run->is_heavy = run->next < run->set->n && is_slice_over(run, &cpu, begun_us);
    }
    run->cpu_used_us += cpu.cpu_us - begun_us;
}

/* What is remote. */

static void keep_answer(struct question *q)
{
    keep_result(q->entry, &q->verdict, mono_since_us(q->start, clock_mono(q->run->clock)),
                q->result);
}

static void close_one(struct check_run *run)
{
    if (atomic_fetch_sub(&run->n_open, 1) == 1)
        run->on_ready(run->ctx); /* the run may be gone after this */
}

static struct question *question_of(struct remote_job *job)
{
    return (struct question *)((char *)job - offsetof(struct question, job));
}

static bool on_answer(struct remote_job *job, struct str answer)
{
    struct question *q = question_of(job);
    bool is_broken = false;
    q->verdict = q->entry->ops->read(q->entry->state, &q->run->item, answer, &is_broken);
    return !is_broken;
}

static void on_done(struct remote_job *job, const char *failure)
{
    struct question *q = question_of(job);
    if (failure)
        q->verdict = check_unscored(failure);
    keep_answer(q);
    close_one(q->run);
}

static void ask(struct check_run *run, const struct entry *c, struct check_result *result)
{
    struct question *q = arena_alloc(run->arena, sizeof *q);
    struct check_verdict v = check_unscored("no_memory");
    struct str text;
    if (!q || !c->ops->ask(c->state, &run->item, &text, &v)) {
        keep_result(c, &v, 0, result);
        return;
    }
    struct mono now = clock_mono(run->clock);
    *q = (struct question){.job = {.lane = c->ops->lane(c->state),
                                   .question = text,
                                   .deadline = {now.us + c->timeout_us},
                                   .read = on_answer,
                                   .done = on_done},
                           .run = run,
                           .entry = c,
                           .result = result,
                           .start = now};
    atomic_fetch_add(&run->n_open, 1);
    remote_ask(run->remote, &q->job);
}

static bool has_failed_gate(const struct score *s)
{
    for (uint32_t i = 0; i < s->n_check; i++)
        if (s->check[i].is_gate && !s->check[i].is_b && s->check[i].outcome != SCORE_UNSCORED &&
            s->check[i].value < 0.5)
            return true;
    return false;
}

/* A failed gate decides: nobody is asked. Results stand in the order of the set. */
static void ask_remote(struct check_run *run)
{
    struct check_verdict not_needed = check_unscored("gate_failed");
    bool is_decided = has_failed_gate(run->score);
    uint32_t at = 0;
    for (uint32_t i = 0; i < run->set->n; i++) {
        const struct entry *c = &run->set->entry[i];
        if (!applies(c, run))
            continue;
        struct check_result *result = &run->score->check[at++];
        if (c->ops->ask && is_decided && !c->is_b)
            keep_result(c, &not_needed, 0, result);
        else if (c->ops->ask && run->remote)
            ask(run, c, result);
    }
}

/* The local checks that are left, then what is remote; true when nothing is waited for. */
static bool proceed(struct check_run *run)
{
    run_local(run);
    if (run->is_heavy || !run->set->has_remote)
        return true;
    atomic_store(&run->n_open, 1); /* ours, until all are asked */
    ask_remote(run);
    return atomic_fetch_sub(&run->n_open, 1) == 1;
}

bool check_set_begin(struct check_run *run)
{
    run->start = clock_mono(run->clock);
    copy_key(run->set, run->output, run->score);
    run->is_skipped = run->skip || is_ended_from_outside(run->output);
    if (run->is_skipped) {
        run->score->reason = run->skip ? str_from(run->skip) : run->output->finish_reason;
        return true;
    }
    const struct str metadata = run->output->metadata;
    if (metadata.n && json_parse(metadata, 0, &run->metadata, NULL) != ERR_OK)
        run->metadata = NULL;
    run->item =
        (struct check_item){.output = run->output, .metadata = run->metadata, .arena = run->arena};
    return proceed(run);
}

bool check_set_resume(struct check_run *run)
{
    run->is_heavy = false;
    run->slice_us = 0;
    return proceed(run);
}

void check_set_end(struct check_run *run)
{
    if (run->is_skipped)
        return;
    compose_score(run->score);
    json_decref(run->metadata);
    run->score->duration_us = mono_since_us(run->start, clock_mono(run->clock));
}

void check_set_run(const struct check_set *set, const struct output *output, struct arena *arena,
                   struct score *score)
{
    struct check_run run = {.set = set,
                            .output = output,
                            .arena = arena,
                            .score = score,
                            .clock = &CLOCK_REAL,
                            .refusal = "not_asked"};
    if (check_set_begin(&run)) /* always, without a loop */
        check_set_end(&run);
}
