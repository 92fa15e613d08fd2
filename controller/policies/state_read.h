/* controller/policies/state_read.h - a state from the text that state_write made, without a tree.
 *
 * Several times faster than json_parse and state_decode, for what is written in just that way; the
 * rest goes through those. Pure; any thread. */
#ifndef CONTROLLER_POLICIES_STATE_READ_H
#define CONTROLLER_POLICIES_STATE_READ_H

#include "controller/policies/state_codec.h"

/* False: the text does not begin so. */
bool state_pass(struct str *text, const char *literal);
/* The object's members up to its closing brace, which may have more before it; fills a zeroed
 * state. False: it stands otherwise, and state and text are of no use. */
bool state_read_fields(const struct state_field *fields, struct str *text, void *state);
/* A whole object, whichever way it is written. Fills a zeroed state of so many bytes; errors as of
 * json_parse and state_decode. */
MUST_USE int state_read(const struct state_field *fields, struct str text, void *state,
                        size_t bytes, struct err *e);

#endif
