/* controller/api_why.h - what a decision rests on, as JSON. Reader thread. */
#ifndef CONTROLLER_API_WHY_H
#define CONTROLLER_API_WHY_H

#include "common/json.h"
#include "controller/store/store.h"

/* {"decision", "rows": {"first","last","n"}, "plot": [slices of the rows], "chain": {...}, "event",
 * "revisions": {"from","to"}}. The caller releases it. ERR_NOT_FOUND: no such decision. */
MUST_USE int api_read_why(struct store *s, int64_t number, json_t **out, struct err *e);

#endif
