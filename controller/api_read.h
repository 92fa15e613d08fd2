/* controller/api_read.h - the API's answers that come from stored rows, as JSON. Reader thread. */
#ifndef CONTROLLER_API_READ_H
#define CONTROLLER_API_READ_H

#include "schemas/config.h"
#include "controller/store/revisions.h"

#include <jansson.h>

/* New objects, ready to be sent; the caller releases them. limit is checked by the caller. */
MUST_USE int api_read_revisions(struct store *s, struct str route, int64_t limit, json_t **out,
                                struct err *e);
/* after < 0: the last `limit`; else the first past it. */
MUST_USE int api_read_decisions(struct store *s, struct str route, int64_t after, int64_t limit,
                                json_t **out, struct err *e);
/* ERR_NOT_FOUND when there is no such decision. */
MUST_USE int api_read_decision(struct store *s, int64_t number, json_t **out, struct err *e);
MUST_USE int api_read_scores(struct store *s, struct str route, bool worst, int64_t limit,
                             json_t **out, struct err *e);
/* config (may be NULL): of the route, for its bounds. */
MUST_USE int api_read_params(struct store *s, struct str route, const struct route_config *config,
                             json_t **out, struct err *e);
/* Percentiles of the last outputs' durations and their course; an idle route has n 0. */
MUST_USE int api_read_load(struct store *s, struct str route, int64_t now_us, json_t **out,
                           struct err *e);
/* Rewards per arm of the last rows in buckets of equal size, with the running interval. */
MUST_USE int api_read_series(struct store *s, struct str route, json_t **out, struct err *e);

/* The same over the last `hours`, from sums by minute or hour. */
MUST_USE int api_read_rewards(struct store *s, struct str route, int64_t hours, int64_t now_us,
                              json_t **out, struct err *e);

#endif
