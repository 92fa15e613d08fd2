/* Requests for datasets; see the header. Invariant: a request is answered only after its row is
 * committed, so a kill at any moment leaves it to be carried out. */
#include "controller/finetune.h"

#include "common/log.h"
#include "controller/store/datasets.h"

#include <stdio.h>

#define DAY_US INT64_C(86400000000)

static int ask(struct ledger *l, struct stored_dataset *d, char id[32], struct err *e)
{
    int64_t waiting = 0;
    int rc = store_count_asked(l->store, &waiting, e);
    if (rc == ERR_OK && waiting >= FINETUNE_WAITING_MAX)
        rc = err_set(e, ERR_CONFLICT, "%lld datasets wait to be exported; try again later",
                     (long long)waiting);
    snprintf(id, 32, "%016llx", (unsigned long long)rng_u64(&l->rng));
    d->id = str_from(id);
    d->asked_us = l->now_us;
    l->has_asked = true;
    return rc == ERR_OK ? store_ask_dataset(l->store, d, e) : rc;
}

int finetune_command(struct ledger *l, struct ledger_route *r, struct command *c, struct err *e)
{
    char id[32];
    struct stored_dataset d = {.route = str_from(r->course.route),
                               .actor = c->author,
                               .reason = c->reason,
                               .since_us = c->since_us,
                               .until_us = c->until_us ? c->until_us : l->now_us + 1,
                               .only_scored = c->only_scored};
    if (d.until_us <= d.since_us)
        return err_set(e, ERR_INVALID, "until_us: must be later than since_us");
    int rc = ask(l, &d, id, e);
    snprintf(c->message, sizeof c->message, "%s", id);
    return rc;
}

int finetune_when_low(struct ledger *l, struct ledger_route *r, const struct decision *d,
                      struct err *e)
{
    const struct controller_config *c = &l->o.config->controller;
    char id[32];
    bool has_asked = false;
    struct stored_dataset x = {.route = str_from(r->course.route),
                               .actor = d->actor,
                               .reason = d->reason,
                               .since_us = l->now_us - c->finetune_days * DAY_US,
                               .until_us = l->now_us + 1};
    if (!c->finetune_when_low)
        return ERR_OK;
    int rc = store_has_asked(l->store, x.route, x.actor, l->now_us - DAY_US, &has_asked, e);
    if (rc != ERR_OK || has_asked)
        return rc;
    struct err why = {0};
    rc = ask(l, &x, id, &why);
    if (rc == ERR_CONFLICT) { /* the decision stands without it */
        log_event(LOG_WARN, "finetune.refused", "route=%s why=\"%s\"", r->course.route, why.msg);
        return ERR_OK;
    }
    if (rc != ERR_OK && e)
        *e = why;
    return rc;
}
