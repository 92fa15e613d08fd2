/* controller/cli/assignment.h - NAME=VALUE of a parameter as people type it. */
#ifndef CONTROLLER_CLI_ASSIGNMENT_H
#define CONTROLLER_CLI_ASSIGNMENT_H

#include "common/err.h"

#include <jansson.h>

/* "temperature=0.5" or "caps.max_new_tokens=512" into the object of a parameter set; names and
 * ranges are checked by whoever reads it. */
MUST_USE int assignment_put(json_t *params, const char *text, struct err *e);

#endif
