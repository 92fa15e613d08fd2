/* controller/notices.h - what the webhooks must be told, put down in the transaction of its cause.
 *
 * milepost.webhook.v1, see API.md. Writer thread, inside a batch. */
#ifndef CONTROLLER_NOTICES_H
#define CONTROLLER_NOTICES_H

#include "controller/ledger.h"
#include "controller/store/datasets.h"
#include "controller/store/notices.h"

enum { NOTICES_WAITING_MAX = 10000 }; /* per webhook; what comes then is given up and counted */

MUST_USE int notices_decision(struct ledger *l, const struct decision *d, struct err *e);
MUST_USE int notices_dataset(struct ledger *l, const struct stored_dataset *d, struct err *e);
/* Gives up what waits for webhooks that the configuration no longer names. */
MUST_USE int notices_bring_up(struct ledger *l, struct err *e);
/* What a sender found out about the notice n->id. */
MUST_USE int notices_attempt(struct ledger *l, const struct stored_notice *n, struct err *e);

#endif
