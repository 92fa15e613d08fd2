/* Opens the checks of a route and runs them over one output. Read-only after open, so that every
 * worker shares one set. The CPU budget stops a slow output between checks; each check bounds
 * itself inside. */
#include "verifier/check_set.h"

#include "common/clock.h"
#include "common/hash.h"
#include "verifier/compose.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUT_CPU_BUDGET_US = 5000000 };

struct entry {
    const struct check_ops *ops;
    void *state;
    struct str id;
    json_t *params, *when; /* owned; when NULL = always */
    double weight;
    bool is_gate, fails_on_error;
    uint64_t timeout_us;
};

struct check_set {
    struct str name;
    struct entry entry[SCORE_MAX_CHECKS];
    uint32_t n;
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
                        .fails_on_error = config->on_error == 1,
                        .timeout_us = (uint64_t)config->timeout_ms * 1000};
    set->n++; /* from here on close releases what there is */
    if (!c->ops)
        return unknown_kind(config->kind, e);
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
    return json_pack("{s:s%,s:s,s:i,s:O,s:O?,s:f,s:b,s:b,s:I}", "id", c->id.p, c->id.n, "kind",
                     c->ops->kind, "code", (int)c->ops->code_version, "params", c->params, "when",
                     c->when, "weight", c->weight, "gate", c->is_gate, "fails", c->fails_on_error,
                     "timeout_us", (json_int_t)c->timeout_us);
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

static bool matches(const json_t *wanted, const json_t *found)
{
    if (!json_is_array(wanted))
        return json_equal(wanted, found);
    for (size_t i = 0; i < json_array_size(wanted); i++)
        if (json_equal(json_array_get(wanted, i), found))
            return true;
    return false;
}

static bool applies(const struct entry *c, const json_t *metadata)
{
    const char *key;
    json_t *wanted;
    json_object_foreach(c->when, key, wanted)
    {
        const json_t *found = json_object_get(metadata, key);
        if (!found || !matches(wanted, found))
            return false;
    }
    return true;
}

static struct check_verdict run_entry(const struct entry *c, struct check_item *item,
                                      uint64_t budget_end_us)
{
    uint64_t now = check_cpu_us();
    if (now > budget_end_us)
        return check_unscored("budget");
    uint64_t end = c->timeout_us ? now + c->timeout_us : budget_end_us;
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

static void run_all(const struct check_set *set, struct check_item *item, struct score *score)
{
    uint64_t budget_end_us = check_cpu_us() + OUTPUT_CPU_BUDGET_US;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct entry *c = &set->entry[i];
        if (!applies(c, item->metadata))
            continue;
        struct mono start = clock_mono(&CLOCK_REAL);
        struct check_verdict v = run_entry(c, item, budget_end_us);
        keep_result(c, &v, mono_since_us(start, clock_mono(&CLOCK_REAL)),
                    &score->check[score->n_check++]);
    }
}

void check_set_run(const struct check_set *set, const struct output *output, struct arena *arena,
                   struct score *score)
{
    struct mono start = clock_mono(&CLOCK_REAL);
    copy_key(set, output, score);
    if (is_ended_from_outside(output)) {
        score->reason = output->finish_reason;
        return;
    }
    json_t *metadata = NULL;
    if (output->metadata.n && json_parse(output->metadata, 0, &metadata, NULL) != ERR_OK)
        metadata = NULL;
    struct check_item item = {.output = output, .metadata = metadata, .arena = arena};
    run_all(set, &item, score);
    compose_score(score);
    json_decref(metadata);
    score->duration_us = mono_since_us(start, clock_mono(&CLOCK_REAL));
}
