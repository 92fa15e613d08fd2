/* controller/gauges.h - the controller's metrics (CONTROL.md section 3). Writer thread.
 *
 * No label is unbounded: experiments are shown under their route, versions as values. */
#ifndef CONTROLLER_GAUGES_H
#define CONTROLLER_GAUGES_H

#include "common/metrics.h"
#include "controller/control_server.h"
#include "controller/intake.h"

struct gauges;
struct gauges *gauges_new(struct metrics *m); /* start-up only */
void gauges_free(struct gauges *g);
void gauges_frame(struct gauges *g, const struct intake_result *r, int64_t now_us);
void gauges_decision(struct gauges *g, const struct decision *d);
void gauges_gap(struct gauges *g, struct str engine, uint64_t n);
void gauges_notice(struct gauges *g, const struct stored_notice *n);
/* What waits for each webhook. */
void gauges_webhooks(struct gauges *g, const struct ledger *l);
void gauges_applied(struct gauges *g, const char *engine, double seconds);
void gauges_commit(struct gauges *g, double seconds, uint32_t rows, bool is_ok);
void gauges_refresh(struct gauges *g, const struct ledger *l, const struct control_server *cs,
                    int64_t now_us);

#endif
