/* Retention, a few milliseconds at a time: a step is a transaction of its own between batches, so
 * rows never wait for more than one. What the laws need is not touched (store/retention.h). */
#include "controller/ledger.h"

#include "controller/store/retention.h"

enum { STEP_OUTPUTS = 500 };
#define DAY_US INT64_C(86400000000)

static int64_t cutoff_us(const struct ledger *l, int64_t days)
{
    return l->now_us - days * DAY_US;
}

int ledger_expire(struct ledger *l, bool *again, struct err *e)
{
    const struct controller_config *c = &l->o.config->controller;
    int64_t n = 0;
    *again = false;
    if (!c->keep_texts_days && !c->keep_sums_days)
        return ERR_OK;
    int rc = ledger_begin(l, e);
    if (rc == ERR_OK && c->keep_texts_days)
        rc = store_expire_texts(l->store, cutoff_us(l, c->keep_texts_days), STEP_OUTPUTS, &n, e);
    if (rc == ERR_OK && c->keep_sums_days && n < STEP_OUTPUTS)
        rc = store_expire_rollups(l->store, cutoff_us(l, c->keep_sums_days), e);
    if (rc == ERR_OK)
        rc = ledger_commit(l, e);
    *again = n == STEP_OUTPUTS;
    return rc;
}
