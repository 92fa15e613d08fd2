/* Operator commands. A refused one leaves nothing behind: each runs in a savepoint.
 *
 * Every change goes through the same split between champion and challenger; --now only changes
 * where the ramp starts (CONTROL.md 1.8). Writer thread. */
#include "controller/commands.h"

#include "common/log.h"
#include "controller/experiment_command.h"
#include "controller/finetune.h"
#include "controller/guard.h"
#include "controller/kill_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_MEMORY = 4 * 1024 * 1024 };

struct command *command_new(enum command_kind kind)
{
    struct command *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->kind = kind;
    arena_init(&c->arena, COMMAND_MEMORY);
    return c;
}

void command_free(struct command *c)
{
    if (!c)
        return;
    arena_free(&c->arena);
    free(c);
}

static int simple(struct ledger *l, struct ledger_route *r, struct command *c, const char *kind,
                  struct err *e)
{
    struct policy_view v;
    struct ledger_event ev = {.route = r, .kind = kind, .actor = c->author, .reason = c->reason};
    int rc = ledger_event(l, &ev, &c->decision, e);
    policy_view(r->course.policy, &v);
    c->revision = v.champion;
    return rc;
}

int command_make_room(struct ledger *l, struct ledger_route *r, struct command *c,
                      const struct policy_view *v, struct err *e)
{
    struct revision running;
    if (!v->challenger)
        return ERR_OK;
    int rc = store_get_revision(l->store, v->challenger, &c->arena, &running, e);
    if (rc != ERR_OK)
        return rc;
    if (!str_starts(running.author, STR("policy:"))) {
        return err_set(e, ERR_CONFLICT,
                       "revision %llu is on trial on route %s (experiment %s); wait for its "
                       "verdict, or roll it back first",
                       (unsigned long long)v->challenger, r->course.route, v->experiment);
    }
    struct ledger_event stop = {.route = r,
                                .kind = "stop",
                                .actor = c->author,
                                .reason = STR("makes room for an operator's change")};
    return ledger_event(l, &stop, NULL, e);
}

static int next_params(const struct ledger_route *r, struct command *c,
                       const struct revision *champion, struct param_set *out, struct err *e)
{
    json_t *v = NULL;
    struct param_set change = {0};
    int rc = json_parse(c->params, JSON_UNIQUE_KEYS, &v, e);
    if (rc == ERR_OK) {
        struct json_at at = json_root(v);
        rc = param_set_decode(&at, &c->arena, &change, e);
        json_decref(v);
    }
    if (rc != ERR_OK)
        return rc;
    *out = champion->params;
    params_overlay(&out->defaults, &change.defaults);
    params_overlay(&out->caps, &change.caps);
    return guard_check(r->config, &champion->params, out, e);
}

static int run_params(struct ledger *l, struct ledger_route *r, struct command *c, struct err *e)
{
    struct policy_view v;
    struct revision champion, next = {.route = str_from(r->course.route),
                                      .author = c->author,
                                      .reason = c->reason,
                                      .created = {l->now_us}};
    bool was_quarantined = false;
    int rc;
    policy_view(r->course.policy, &v);
    TRY(store_get_revision(l->store, v.champion, &c->arena, &champion, e));
    TRY(next_params(r, c, &champion, &next.params, e));
    TRY(command_make_room(l, r, c, &v, e));
    next.parent = champion.number;
    param_set_hash(&next.params, next.hash);
    TRY(store_is_quarantined(l->store, next.route, str_from(next.hash), &was_quarantined, e));
    if (was_quarantined) /* only an operator may try it again, and it stays on the record */
        next.reason = arena_printf(&c->arena, STR_FMT " (retry of a quarantined content)",
                                   STR_ARG(c->reason));
    TRY(store_add_revision(l->store, &next, e));
    snprintf(c->experiment, sizeof c->experiment, "e%llu", (unsigned long long)next.number);
    struct str payload =
        arena_printf(&c->arena, "{\"revision\":%llu,\"experiment\":\"%s\",\"is_now\":%s}",
                     (unsigned long long)next.number, c->experiment, c->is_now ? "true" : "false");
    struct ledger_event ev = {
        .route = r, .kind = "start", .actor = c->author, .reason = next.reason, .payload = payload};
    TRY(ledger_event(l, &ev, &c->decision, e));
    c->revision = next.number;
out:
    return rc;
}

static int run_rollback(struct ledger *l, struct ledger_route *r, struct command *c, struct err *e)
{
    struct policy_view v;
    struct revision to;
    policy_view(r->course.policy, &v);
    if (c->to == 0 || (c->to == v.champion && v.challenger))
        return simple(l, r, c, "rollback", e);
    int rc = store_get_revision(l->store, c->to, &c->arena, &to, e);
    if (rc != ERR_OK)
        return rc;
    if (!str_eq_c(to.route, r->course.route)) {
        return err_set(e, ERR_INVALID, "revision %llu is of route " STR_FMT ", not of %s",
                       (unsigned long long)c->to, STR_ARG(to.route), r->course.route);
    }
    if (c->to == v.champion)
        return err_set(e, ERR_CONFLICT, "revision %llu serves already", (unsigned long long)c->to);
    bool is_quarantined = false;
    rc = store_is_quarantined(l->store, to.route, str_from(to.hash), &is_quarantined, e);
    if (rc != ERR_OK)
        return rc;
    if (is_quarantined) {
        /* A rollback serves everybody at once, without a control group. */
        return err_set(e, ERR_CONFLICT,
                       "revision %llu was rolled back before (quarantine); to try it again put its "
                       "parameters on trial with 'milepost params set'",
                       (unsigned long long)c->to);
    }
    struct ledger_event ev = {.route = r,
                              .kind = "champion",
                              .actor = c->author,
                              .reason = c->reason,
                              .payload = arena_printf(&c->arena,
                                                      "{\"revision\":%llu,\"why\":\"rollback\"}",
                                                      (unsigned long long)c->to)};
    c->revision = c->to;
    return ledger_event(l, &ev, &c->decision, e);
}

static int dispatch(struct ledger *l, struct command *c, struct err *e)
{
    static const char *const KINDS[COMMAND_KIND_COUNT] = {
        [COMMAND_PAUSE] = "hold",
        [COMMAND_RESUME] = "resume",
        [COMMAND_PROMOTE] = "promote",
        [COMMAND_STOP] = "stop",
        [COMMAND_EXPERIMENT_STOP] = "experiment_stop",
    };
    if (c->kind == COMMAND_WRITE)
        return c->write(l, c, e);
    if (c->is_all)
        return kill_switch_command(l, c, e);
    int rc = kill_switch_check(l, c, e);
    if (rc != ERR_OK)
        return rc;
    struct ledger_route *r = ledger_route_of(l, c->route);
    if (!r)
        return err_set(e, ERR_NOT_FOUND, "there is no route '" STR_FMT "'", STR_ARG(c->route));
    if (c->kind == COMMAND_PARAMS)
        return run_params(l, r, c, e);
    if (c->kind == COMMAND_EXPERIMENT)
        return experiment_command_start(l, r, c, e);
    if (c->kind == COMMAND_FINETUNE)
        return finetune_command(l, r, c, e);
    if (c->kind == COMMAND_ROLLBACK)
        return run_rollback(l, r, c, e);
    return simple(l, r, c, KINDS[c->kind], e);
}

static bool is_the_callers(int rc)
{
    return rc == ERR_INVALID || rc == ERR_NOT_FOUND || rc == ERR_CONFLICT || rc == ERR_UNSUPPORTED;
}

int command_run(struct ledger *l, struct command *c, struct err *e)
{
    struct db *db = store_db(l->store);
    uint64_t before = 0, after = 0;
    c->err = (struct err){0};
    int rc = store_last_ord(l->store, &before, e);
    if (rc == ERR_OK)
        rc = db_exec(db, "SAVEPOINT command", e);
    if (rc != ERR_OK)
        return rc;
    int done = dispatch(l, c, &c->err);
    c->err.code = (enum err_code)done;
    if (done != ERR_OK && !is_the_callers(done)) {
        if (e)
            *e = c->err;
        return done;
    }
    if (done != ERR_OK)
        rc = db_exec(db, "ROLLBACK TO command", e);
    /* An event was fed before the refusal: the law is ahead of the database, so all goes back. */
    if (rc == ERR_OK && done != ERR_OK)
        rc = store_last_ord(l->store, &after, e);
    if (rc == ERR_OK && done != ERR_OK && after != before)
        return err_set(e, ERR_CONFLICT, "%s", c->err.msg);
    if (rc == ERR_OK)
        rc = db_exec(db, "RELEASE command", e);
    return rc;
}
