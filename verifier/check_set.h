/* verifier/check_set.h - the checks of one route, opened, with the version their content gives.
 *
 * A check's parameters may hold "when": {"kind": "json"} or {"kind": ["json", "list"]}: it then
 * applies only to outputs whose metadata has such a value, and is left out of the others' scores.
 */
#ifndef VERIFIER_CHECK_SET_H
#define VERIFIER_CHECK_SET_H

#include "schemas/config.h"
#include "verifier/check.h"

struct check_set;

/* ERR_INVALID names route, check and key, what was found and what is allowed. */
MUST_USE int check_set_open(struct check_set **out, const struct route_config *route,
                            struct err *e);
void check_set_close(struct check_set *set);
const char *check_set_version(const struct check_set *set); /* SHA-256 of content and code */
struct str check_set_name(const struct check_set *set);
size_t check_set_count(const struct check_set *set);

/* Runs what applies and composes. Fills check_set, version, engine, request_id, epoch, seq, choice,
 * checks, reward and duration of *score; texts are borrowed from set, output and arena. Any number
 * of threads at once; may block as long as the checks' timeouts allow. */
void check_set_run(const struct check_set *set, const struct output *output, struct arena *arena,
                   struct score *score);

#endif
