/* controller/api_experiments.h - the API's answers about experiments, as JSON. Reader thread. */
#ifndef CONTROLLER_API_EXPERIMENTS_H
#define CONTROLLER_API_EXPERIMENTS_H

#include "schemas/config.h"
#include "common/json.h"
#include "controller/store/store.h"

/* New objects, ready to be sent; the caller releases them. */
MUST_USE int api_experiment_list(struct store *s, struct str route, int64_t limit, json_t **out,
                                 struct err *e);
/* ERR_NOT_FOUND when there is no such experiment. Of a running one: as of the last commit. */
MUST_USE int api_experiment_report(struct store *s, struct str id, json_t **out, struct err *e);
/* request: controller/experiment_request.h. Plays the experiment; about a second at most. */
MUST_USE int api_experiment_plan(struct store *s, struct str route,
                                 const struct route_config *config, const struct json_at *request,
                                 json_t **out, struct err *e);

#endif
