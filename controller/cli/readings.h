/* controller/cli/readings.h - numbers out of the text that /metrics gives (Prometheus' exposition
 * format, version 0.0.4). Pure; lines that are not understood are skipped. */
#ifndef CONTROLLER_CLI_READINGS_H
#define CONTROLLER_CLI_READINGS_H

#include "common/str.h"

/* Sum of a metric's series; 0 when there is none. */
double readings_sum(struct str text, const char *name);
/* Least value of its series; NaN when there is none. */
double readings_least(struct str text, const char *name);
/* Value of that label in the series that grew most from `before` to `text`; empty when none did. */
struct str readings_most_grown(struct str before, struct str text, const char *name,
                               const char *label);

#endif
