/* schemas/control_desired.h - the nested part of control messages; for control.c. */
#ifndef SCHEMAS_CONTROL_DESIRED_H
#define SCHEMAS_CONTROL_DESIRED_H

#include "schemas/control.h"

MUST_USE int desired_write(const struct desired *d, json_t *obj, struct err *e);
/* Checks the document as a whole: names are unique, arm[0] is "champion", shares sum to 1. */
MUST_USE int desired_read(const struct json_at *obj, struct arena *a, struct desired *out,
                          struct err *e);

#endif
