/* One notice per webhook that wants the event. Invariant: a notice is there if and only if what it
 * tells of was committed, so no crash can lose one or tell of what never was. */
#include "controller/notices.h"

#include "common/hash.h"
#include "common/log.h"

static const struct webhook_config *webhook_at(const struct ledger *l, uint32_t i)
{
    return (const struct webhook_config *)l->o.config->controller.webhooks.item + i;
}

static bool is_wanted(const struct ledger *l, struct str event)
{
    for (uint32_t i = 0; i < l->o.config->controller.webhooks.n; i++)
        if (milepost_config_wants(webhook_at(l, i), event))
            return true;
    return false;
}

static int add_for(struct ledger *l, const struct webhook_config *w, struct stored_notice n,
                   struct err *e)
{
    int64_t waiting = 0;
    n.webhook = w->name;
    int rc = store_count_waiting(l->store, w->name, &waiting, e);
    if (rc == ERR_OK && waiting >= NOTICES_WAITING_MAX) {
        n.state = NOTICE_GIVEN_UP;
        n.answer = STR("too many waited already");
        if (l->o.hooks.notice)
            l->o.hooks.notice(l->o.hooks.ctx, &n);
    }
    return rc == ERR_OK ? store_add_notice(l->store, &n, e) : rc;
}

static int add_for_all(struct ledger *l, const struct stored_notice *n, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < l->o.config->controller.webhooks.n; i++)
        if (milepost_config_wants(webhook_at(l, i), n->event))
            rc = add_for(l, webhook_at(l, i), *n, e);
    l->has_notices = true;
    return rc;
}

/* {"schema","id","event","route","at_us","text", part_name: part}; takes part. */
static int add_event(struct ledger *l, struct stored_notice *n, struct str route, struct str text,
                     const char *part_name, json_t *part, struct err *e)
{
    struct buf b;
    buf_init(&b, MiB);
    json_t *v =
        json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "schema", "milepost.webhook.v1", "id",
                  json_str(n->key), "event", json_str(n->event), "route", json_str(route), "at_us",
                  (json_int_t)l->now_us, "text", json_str(text), part_name, part);
    int rc = v ? json_write(v, &b, e) : err_set(e, ERR_NOMEM, "no memory for a webhook's text");
    n->body = buf_str(&b);
    n->created_us = l->now_us; /* next_us 0: at once, whatever the clock does */
    if (rc == ERR_OK)
        rc = add_for_all(l, n, e);
    json_decref(v);
    buf_free(&b);
    return rc;
}

int notices_decision(struct ledger *l, const struct decision *d, struct err *e)
{
    if (!is_wanted(l, d->action))
        return ERR_OK;
    /* The seal names this decision among those of all databases. */
    struct stored_notice n = {.key = arena_printf(&l->arena, "decision-%.32s", d->hash),
                              .event = d->action};
    struct str text = arena_printf(&l->arena, "route " STR_FMT ": " STR_FMT ": " STR_FMT,
                                   STR_ARG(d->route), STR_ARG(d->action), STR_ARG(d->reason));
    if (!n.key.p || !text.p)
        return err_set(e, ERR_NOMEM, "no memory for a webhook's text");
    return add_event(l, &n, d->route, text, "decision", decision_encode(d), e);
}

static json_t *dataset_json(const struct stored_dataset *d)
{
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:b, s:o, s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:I, "
        "s:I}",
        "id", json_str(d->id), "actor", json_str(d->actor), "reason", json_str(d->reason),
        "since_us", (json_int_t)d->since_us, "until_us", (json_int_t)d->until_us, "only_scored",
        d->only_scored, "path", json_str(d->path), "format", "jsonl", "bytes",
        (json_int_t)d->n_bytes, "sha256", json_str(d->sha256), "outputs", (json_int_t)d->n_outputs,
        "without_text", (json_int_t)d->n_without_text, "first_row", (json_int_t)d->first_row,
        "last_row", (json_int_t)d->last_row, "first_revision", (json_int_t)d->first_revision,
        "last_revision", (json_int_t)d->last_revision);
}

int notices_dataset(struct ledger *l, const struct stored_dataset *d, struct err *e)
{
    struct stored_notice n = {.key = arena_printf(&l->arena, "dataset-" STR_FMT, STR_ARG(d->id)),
                              .event = STR("finetune")};
    struct str text =
        arena_printf(&l->arena, "route " STR_FMT ": %llu outputs for training in " STR_FMT,
                     STR_ARG(d->route), (unsigned long long)d->n_outputs, STR_ARG(d->path));
    if (!n.key.p || !text.p)
        return err_set(e, ERR_NOMEM, "no memory for a webhook's text");
    return is_wanted(l, n.event) ? add_event(l, &n, d->route, text, "dataset", dataset_json(d), e)
                                 : ERR_OK;
}

int notices_bring_up(struct ledger *l, struct err *e)
{
    struct buf b;
    int64_t n = 0;
    json_t *names = json_array();
    buf_init(&b, 64 * KiB);
    for (uint32_t i = 0; i < l->o.config->controller.webhooks.n; i++)
        json_array_append_new(names, json_str(webhook_at(l, i)->name));
    int rc = names ? json_write(names, &b, e) : err_set(e, ERR_NOMEM, "no memory for names");
    if (rc == ERR_OK)
        rc = store_drop_notices(l->store, buf_str(&b), l->now_us, &n, e);
    if (n)
        log_event(LOG_WARN, "webhook.dropped",
                  "notices=%lld why=\"their webhook is no longer "
                  "configured\"",
                  (long long)n);
    json_decref(names);
    buf_free(&b);
    return rc;
}

int notices_attempt(struct ledger *l, const struct stored_notice *n, struct err *e)
{
    int rc = store_note_attempt(l->store, n, l->now_us, e);
    l->has_notices = true;
    if (rc == ERR_OK && l->o.hooks.notice)
        l->o.hooks.notice(l->o.hooks.ctx, n);
    return rc;
}
