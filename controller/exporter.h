/* controller/exporter.h - the thread that makes the datasets that were asked for (finetune.h).
 *
 * One at a time, read on a connection of its own, so that neither the writer nor the webhooks wait
 * for a long one. The file appears under its name when it is whole and on the disk; then its row
 * and the webhooks' notices are written in one transaction. */
#ifndef CONTROLLER_EXPORTER_H
#define CONTROLLER_EXPORTER_H

#include "common/queue.h"
#include "controller/commands.h"

struct exporter;

/* commands: where results for the writer go. */
MUST_USE int exporter_open(struct exporter **out, const struct milepost_config *c,
                           const char *database, struct queue *commands, struct err *e);
MUST_USE int exporter_start(struct exporter *x, struct err *e);
void exporter_wake(struct exporter *x); /* any thread: something was asked for */
void exporter_stop(
    struct exporter *x); /* waits for the thread; a file half written is made again */
void exporter_close(struct exporter *x); /* after the last command was answered */

#endif
