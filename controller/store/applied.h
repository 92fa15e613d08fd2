/* controller/store/applied.h - versions of the desired state, who applied them, orders to engines.
 */
#ifndef CONTROLLER_STORE_APPLIED_H
#define CONTROLLER_STORE_APPLIED_H

#include "controller/store/store.h"

/* first > last: no decision stands behind it. */
MUST_USE int store_put_version(struct store *s, uint64_t version, uint64_t first_decision,
                               uint64_t last_decision, int64_t at_us, struct err *e);
/* The first word of an engine about a version counts. */
MUST_USE int store_put_applied(struct store *s, struct str engine, uint64_t version, int64_t at_us,
                               struct err *e);

struct stored_order {
    struct str engine, command, argument, actor, answer;
    bool is_ok;
    int64_t at_us;
};
MUST_USE int store_put_order(struct store *s, const struct stored_order *o, struct err *e);

#endif
