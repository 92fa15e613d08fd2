/* schemas/migrations.h - sql/0001_*.sql and so on, in order, as they were at build time. */
#ifndef SCHEMAS_MIGRATIONS_H
#define SCHEMAS_MIGRATIONS_H

#include "common/embed.h"

extern const struct embedded_file SCHEMA_MIGRATIONS[];
extern const size_t SCHEMA_MIGRATIONS_COUNT;

#endif
