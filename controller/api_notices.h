/* controller/api_notices.h - datasets, what webhooks were told, orders to engines: as JSON. Reader
 * thread. */
#ifndef CONTROLLER_API_NOTICES_H
#define CONTROLLER_API_NOTICES_H

#include "common/json.h"
#include "controller/store/store.h"

/* New objects (API.md); the caller releases them. */
MUST_USE int api_read_datasets(struct store *s, struct str route, int64_t limit, json_t **out,
                               struct err *e);
/* With the webhooks' notices of it. ERR_NOT_FOUND. */
MUST_USE int api_read_dataset(struct store *s, struct str id, json_t **out, struct err *e);
MUST_USE int api_read_orders(struct store *s, int64_t limit, json_t **out, struct err *e);
MUST_USE int api_read_notices(struct store *s, int64_t limit, json_t **out, struct err *e);

#endif
