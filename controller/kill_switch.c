/* The switch is a setting (who, when, why, which routes it held), written in the transaction of the
 * holds. Invariant: while it is on, every route of the configuration is on hold. */
#include "controller/kill_switch.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>

static const char KEY[] = "kill_switch";

static bool is_held(const struct ledger_route *r)
{
    struct policy_view v;
    policy_view(r->course.policy, &v);
    return strcmp(v.phase, "safe") == 0;
}

static void copy(char *out, size_t cap, struct str s)
{
    snprintf(out, cap, "%.*s", (int)(s.n < cap ? s.n : cap - 1), s.p ? s.p : "");
}

static int save(struct ledger *l, struct err *e)
{
    struct kill_switch *k = &l->kill_switch;
    struct buf b;
    json_t *held = json_array();
    buf_init(&b, 256 * KiB);
    for (uint32_t i = 0; i < l->n_route; i++)
        if (l->route[i].is_held_by_switch)
            json_array_append_new(held, json_str(str_from(l->route[i].course.route)));
    json_t *v =
        json_pack("{s:b, s:I, s:s, s:s, s:o}", "is_on", k->is_on, "since_us",
                  (json_int_t)k->since_us, "actor", k->actor, "reason", k->reason, "held", held);
    int rc = v ? json_write(v, &b, e) : err_set(e, ERR_NOMEM, "no memory for the kill switch");
    if (rc == ERR_OK)
        rc = store_setting_put(l->store, KEY, buf_str(&b), e);
    json_decref(v);
    buf_free(&b);
    return rc;
}

static int read(struct ledger *l, const struct json_at *root, struct err *e)
{
    struct kill_switch *k = &l->kill_switch;
    struct str actor = {0}, reason = {0}, name;
    struct json_at held = json_field(root, "held");
    size_t n = 0;
    int rc = json_opt_bool(root, "is_on", &k->is_on, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(root, "since_us", 0, INT64_MAX, &k->since_us, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "actor", &actor, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "reason", &reason, e);
    if (rc == ERR_OK)
        rc = json_get_array(&held, 4096, &n, e);
    copy(k->actor, sizeof k->actor, actor);
    copy(k->reason, sizeof k->reason, reason);
    for (size_t i = 0; rc == ERR_OK && i < n; i++) {
        struct json_at item = json_item(&held, i);
        rc = json_get_str(&item, &name, e);
        struct ledger_route *r = rc == ERR_OK && name.n ? ledger_route_of(l, name) : NULL;
        if (r)
            r->is_held_by_switch = true;
    }
    return rc;
}

int kill_switch_load(struct ledger *l, struct err *e)
{
    struct arena a;
    struct str text;
    json_t *v = NULL;
    l->kill_switch = (struct kill_switch){0};
    arena_init(&a, MiB);
    int rc = store_setting_get(l->store, KEY, &a, &text, e);
    if (rc == ERR_OK)
        rc = json_parse(text, 0, &v, e);
    if (rc == ERR_OK) {
        struct json_at root = json_root(v);
        rc = read(l, &root, e);
    }
    json_decref(v);
    arena_free(&a);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int hold(struct ledger *l, struct ledger_route *r, struct command *c, struct err *e)
{
    struct kill_switch *k = &l->kill_switch;
    uint64_t decision = 0;
    struct ledger_event ev = {
        .route = r,
        .kind = "hold",
        .actor = str_from(k->actor),
        .reason = arena_printf(&l->arena, "kill switch%s%s", k->reason[0] ? ": " : "", k->reason)};
    if (is_held(r))
        return ERR_OK;
    int rc = ledger_event(l, &ev, &decision, e);
    r->is_held_by_switch = rc == ERR_OK;
    if (c && c->decision == 0)
        c->decision = decision;
    return rc;
}

static int turn_on(struct ledger *l, struct command *c, struct err *e)
{
    struct kill_switch *k = &l->kill_switch;
    int rc = ERR_OK;
    *k = (struct kill_switch){.is_on = true, .since_us = l->now_us};
    copy(k->actor, sizeof k->actor, c->author);
    copy(k->reason, sizeof k->reason, c->reason);
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        l->route[i].is_held_by_switch = false;
        rc = hold(l, &l->route[i], c, e);
    }
    return rc;
}

static int turn_off(struct ledger *l, struct command *c, struct err *e)
{
    int rc = ERR_OK;
    l->kill_switch = (struct kill_switch){0};
    for (uint32_t i = 0; rc == ERR_OK && i < l->n_route; i++) {
        struct ledger_route *r = &l->route[i];
        struct ledger_event ev = {
            .route = r, .kind = "resume", .actor = c->author, .reason = c->reason};
        uint64_t decision = 0;
        if (r->is_held_by_switch && is_held(r))
            rc = ledger_event(l, &ev, &decision, e);
        r->is_held_by_switch = false;
        if (c->decision == 0)
            c->decision = decision;
    }
    return rc;
}

int kill_switch_command(struct ledger *l, struct command *c, struct err *e)
{
    const struct kill_switch *k = &l->kill_switch;
    bool is_on = c->kind == COMMAND_PAUSE;
    if (is_on && k->is_on)
        return err_set(e, ERR_CONFLICT, "all routes are paused already, by %s", k->actor);
    if (!is_on && !k->is_on)
        return err_set(e, ERR_CONFLICT,
                       "the kill switch is not on; a route that was paused by "
                       "itself is resumed by its name");
    int rc = is_on ? turn_on(l, c, e) : turn_off(l, c, e);
    if (rc == ERR_OK)
        rc = save(l, e);
    if (rc == ERR_OK)
        log_event(LOG_WARN, "kill_switch", "is_on=%d by=" STR_FMT, is_on, STR_ARG(c->author));
    return rc;
}

int kill_switch_check(const struct ledger *l, const struct command *c, struct err *e)
{
    const struct kill_switch *k = &l->kill_switch;
    if (!k->is_on || c->kind == COMMAND_ROLLBACK || c->kind == COMMAND_FINETUNE)
        return ERR_OK;
    return err_set(e, ERR_CONFLICT,
                   "the kill switch is on (all routes paused by %s%s%.200s); 'milepost resume "
                   "--all' turns it off",
                   k->actor, k->reason[0] ? ": " : "", k->reason);
}

int kill_switch_bring_up(struct ledger *l, struct err *e)
{
    int rc = ERR_OK;
    bool is_news = false;
    for (uint32_t i = 0; rc == ERR_OK && l->kill_switch.is_on && i < l->n_route; i++) {
        is_news = is_news || !is_held(&l->route[i]);
        rc = hold(l, &l->route[i], NULL, e);
    }
    return rc == ERR_OK && is_news ? save(l, e) : rc;
}
