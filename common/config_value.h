/* common/config_value.h - one value of an option from a node; for config_*.c. */
#ifndef COMMON_CONFIG_VALUE_H
#define COMMON_CONFIG_VALUE_H

#include "common/config.h"
#include "common/config_node.h"

struct cfg_place {      /* where a value was found, for messages */
    const char *source; /* file name, or "--set a.b=c" */
    int line;           /* 0 = none */
    const char *path;   /* "engine.port" */
};

int cfg_refuse(const struct cfg_place *at, struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* "an integer from 1 to 65535" into out; also for the reference. */
const char *cfg_describe(const struct cfg_option *o, char *out, size_t cap);
/* Scalar types and text lists; field points at the member. */
MUST_USE int cfg_read_scalar(const struct cfg_option *o, const struct cfg_node *n,
                             const struct cfg_place *at, struct arena *a, void *field,
                             struct err *e);
/* The default, from the table. */
MUST_USE int cfg_read_fallback(const struct cfg_option *o, struct arena *a, void *field,
                               struct err *e);

#endif
