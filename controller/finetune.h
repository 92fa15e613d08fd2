/* controller/finetune.h - asking for a dataset to train on: an operator's command, or a low reward.
 *
 * The request is a row; the exporter makes the file and the webhooks tell of it. Writer thread,
 * inside a batch. */
#ifndef CONTROLLER_FINETUNE_H
#define CONTROLLER_FINETUNE_H

#include "controller/commands.h"

enum { FINETUNE_WAITING_MAX = 16 };

/* c->message becomes the dataset's id. ERR_CONFLICT: too many wait. */
MUST_USE int finetune_command(struct ledger *l, struct ledger_route *r, struct command *c,
                              struct err *e);
/* A law proposed a change because the reward is low: at most one dataset a day and route, and only
 * where controller.finetune_when_low says so. */
MUST_USE int finetune_when_low(struct ledger *l, struct ledger_route *r, const struct decision *d,
                               struct err *e);

#endif
