/* schemas/config_tables.h - the parts of the configuration's option table; for schemas/config*.c.
 */
#ifndef SCHEMAS_CONFIG_TABLES_H
#define SCHEMAS_CONFIG_TABLES_H

#include "schemas/config.h"

extern const struct cfg_table ENGINE_TABLE, LOOP_TABLE, VERIFIER_TABLE, CONTROLLER_TABLE,
    ROUTE_TABLE, POLICY_TABLE, WEBHOOK_TABLE;

/* Letters, digits, - _ . and not empty: what may stand in labels, paths and file names. */
bool config_is_name(struct str s);

#define CFG_COUNT(options) (sizeof(options) / sizeof *(options))

/* Rows of an option table; `S` is the struct the table fills. */
#define TEXT_ROW(S, field, fallback_, help_)                                                       \
    {                                                                                              \
        .key = #field, .type = CFG_TEXT, .offset = offsetof(S, field), .fallback = fallback_,      \
        .unit = "", .help = help_                                                                  \
    }
#define INT_ROW(S, field, fallback_, min_, max_, unit_, help_)                                     \
    {                                                                                              \
        .key = #field, .type = CFG_INT, .offset = offsetof(S, field), .fallback = fallback_,       \
        .min = min_, .max = max_, .unit = unit_, .help = help_                                     \
    }
#define REAL_ROW(S, field, fallback_, min_, max_, unit_, help_)                                    \
    {                                                                                              \
        .key = #field, .type = CFG_REAL, .offset = offsetof(S, field), .fallback = fallback_,      \
        .min = min_, .max = max_, .unit = unit_, .help = help_                                     \
    }
#define BOOL_ROW(S, field, fallback_, help_)                                                       \
    {                                                                                              \
        .key = #field, .type = CFG_BOOL, .offset = offsetof(S, field), .fallback = fallback_,      \
        .unit = "", .help = help_                                                                  \
    }
#define ENUM_ROW(S, field, fallback_, choices_, help_)                                             \
    {                                                                                              \
        .key = #field, .type = CFG_ENUM, .offset = offsetof(S, field), .fallback = fallback_,      \
        .choices = choices_, .unit = "", .help = help_                                             \
    }

#endif
