/* controller/cli/experiment_print.h - experiments as a person reads them. */
#ifndef CONTROLLER_CLI_EXPERIMENT_PRINT_H
#define CONTROLLER_CLI_EXPERIMENT_PRINT_H

#include "common/err.h"
#include "controller/cli/cli.h"

/* Answers of /v1/experiments (controller/API.md). */
MUST_USE int experiment_print_plan(struct cli *c, const json_t *plan, struct err *e);
MUST_USE int experiment_print_list(struct cli *c, const json_t *list, struct err *e);
MUST_USE int experiment_print_report(struct cli *c, const json_t *report, struct err *e);

#endif
