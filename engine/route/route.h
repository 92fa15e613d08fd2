/* engine/route/route.h - which route, arm, revision and parameters a request gets.
 *
 * A table is an immutable snapshot of the desired state (or of the configuration, while no
 * controller was ever heard). Requests hold a reference, so what was decided at admission stays
 * readable until their record is written. I/O thread only; pure but for allocation. */
#ifndef ENGINE_ROUTE_ROUTE_H
#define ENGINE_ROUTE_ROUTE_H

#include "schemas/config.h"
#include "schemas/control.h"
#include "schemas/output.h"

struct route_table;

/* Every text is copied. ERR_INVALID when there is no route or shares do not add up to 1. */
MUST_USE int route_table_from_desired(struct route_table **out, const struct desired *d,
                                      struct err *e);
/* One arm a route, revision number 0, version 0. */
MUST_USE int route_table_from_config(struct route_table **out, const struct milepost_config *c,
                                     struct err *e);
struct route_table *route_table_hold(struct route_table *t); /* one more reference */
void route_table_release(struct route_table *t);             /* NULL is fine */
uint64_t route_table_version(const struct route_table *t);
uint32_t route_table_count(const struct route_table *t);
struct str route_table_name_at(const struct route_table *t, uint32_t i);

struct route_choice { /* borrowed from the table */
    const struct desired_route *route;
    const struct desired_arm *arm;
    double propensity;
};

/* "smollm2:math" -> base "smollm2", route "math"; without a colon route is empty. */
void route_split_model(struct str model, struct str *base, struct str *route);
/* name empty = the first route. ERR_NOT_FOUND lists the known ones. The arm is a function of
 * (salt, experiment, unit): the same unit always meets the same arm of an experiment. */
MUST_USE int route_choose(const struct route_table *t, struct str name, struct str unit,
                          struct route_choice *out, struct err *e);
/* Who the arm is drawn for: the user, else the conversation, else the request alone. */
struct str route_unit(struct str user, struct str conversation, struct str request_id);
/* What the request runs with: the arm's revision and the client's own values, never more new tokens
 * than there is room for. Fixed from here on. */
void route_settle(const struct route_choice *c, const struct params *client, double room,
                  struct params *effective);
/* The decisions of admission into the request's record. number: of the admission. */
void route_mark(const struct route_table *t, const struct route_choice *c, uint64_t number,
                struct output *out);

#endif
