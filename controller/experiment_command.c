/* Starting an experiment: revisions for its arms and one event, in the command's savepoint. */
#include "controller/experiment_command.h"

#include "controller/experiment_request.h"

#include <stdio.h>

static int add_revisions(struct ledger *l, struct ledger_route *r, struct command *c,
                         const struct experiment_request *q, uint64_t *numbers, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t k = 1; rc == ERR_OK && k < q->n_arm; k++) {
        struct revision rev = {.parent = numbers[0],
                               .route = str_from(r->course.route),
                               .params = q->arm[k],
                               .author = c->author,
                               .reason = c->reason,
                               .created = {l->now_us}};
        bool is_quarantined = false;
        param_set_hash(&rev.params, rev.hash);
        rc = store_is_quarantined(l->store, rev.route, str_from(rev.hash), &is_quarantined, e);
        if (rc == ERR_OK && is_quarantined)
            rc = err_set(e, ERR_CONFLICT,
                         "arm %u: the same parameters were rolled back before (quarantine); leave "
                         "it out, or try them by themselves with 'milepost params set'",
                         k);
        if (rc == ERR_OK)
            rc = store_add_revision(l->store, &rev, e);
        numbers[k] = rev.number;
    }
    return rc;
}

static int payload_of(struct ledger *l, struct command *c, struct experiment_request *q,
                      const uint64_t *numbers, struct str *out, struct err *e)
{
    struct buf b;
    json_t *o = json_object(), *list = json_array();
    buf_init(&b, 64 * KiB);
    if (!q->has_seed)
        q->plan.seed = rng_u64(&l->rng) >> 11; /* fits a JSON number */
    for (uint32_t k = 0; k < q->n_arm; k++)
        json_array_append_new(list, json_integer((json_int_t)numbers[k]));
    bool is_done = experiment_plan_encode(&q->plan, o) &&
                   json_object_set_new(o, "id", json_string(c->experiment)) == 0 &&
                   json_object_set_new(o, "revisions", list) == 0;
    int rc = is_done ? json_write(o, &b, e) : err_set(e, ERR_NOMEM, "no memory for an experiment");
    if (rc == ERR_OK)
        *out = arena_str(&c->arena, buf_str(&b));
    json_decref(o);
    buf_free(&b);
    return rc;
}

static int read_request(const struct ledger_route *r, struct command *c,
                        const struct param_set *champion, struct experiment_request *out,
                        struct err *e)
{
    json_t *v = NULL;
    int rc = json_parse(c->params, JSON_UNIQUE_KEYS, &v, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at at = json_root(v);
    rc = experiment_request_read(&at, r->config, champion, &c->arena, out, e);
    json_decref(v);
    return rc;
}

int experiment_command_start(struct ledger *l, struct ledger_route *r, struct command *c,
                             struct err *e)
{
    uint64_t numbers[EXPERIMENT_ARMS] = {0};
    struct revision champion = {0};
    struct policy_view v;
    struct ledger_event ev = {
        .route = r, .kind = "experiment", .actor = c->author, .reason = c->reason};
    struct experiment_request *q = arena_alloc(&c->arena, sizeof *q);
    int rc = q ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for an experiment");
    policy_view(r->course.policy, &v);
    if (rc == ERR_OK)
        rc = store_get_revision(l->store, v.champion, &c->arena, &champion, e);
    if (rc == ERR_OK)
        rc = read_request(r, c, &champion.params, q, e);
    if (rc == ERR_OK && q->has_scheduler_knobs && r != &l->route[0])
        rc = err_set(e, ERR_INVALID, "the engine's knobs follow route %s: experiment there",
                     l->route[0].course.route);
    numbers[0] = champion.number;
    if (rc == ERR_OK)
        rc = add_revisions(l, r, c, q, numbers, e);
    if (rc == ERR_OK)
        rc = command_make_room(l, r, c, &v, e);
    if (rc != ERR_OK)
        return rc;
    snprintf(c->experiment, sizeof c->experiment, "x%llu", (unsigned long long)numbers[1]);
    c->revision = champion.number;
    rc = payload_of(l, c, q, numbers, &ev.payload, e);
    return rc == ERR_OK ? ledger_event(l, &ev, &c->decision, e) : rc;
}
