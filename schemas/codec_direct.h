/* schemas/codec_direct.h - the flat fields of a message straight from its text, and to it.
 *
 * What codec_open_apart and codec_read do together, several times faster: a field whose value is
 * plain (schemas/plain.h) goes to its place without a tree. Everything else, and everything that is
 * wrong, takes the way over the tree, so that values and error messages are the same. */
#ifndef SCHEMAS_CODEC_DIRECT_H
#define SCHEMAS_CODEC_DIRECT_H

#include "schemas/codec.h"

struct codec_direct {
    const char *schema; /* NULL: an object inside a message, and nothing takes the way over the
                         * tree: ERR_UNSUPPORTED when something would have to */
    size_t max_bytes;
    const struct codec_field *field; /* at most 64 */
    size_t n;
    struct codec_apart *apart; /* results, as of codec_open_apart */
    size_t n_apart;
};
/* Members that are in neither list have been checked to be JSON, no more. */
MUST_USE int codec_read_direct(struct str text, const struct codec_direct *c, struct arena *a,
                               void *out, struct err *e);
/* Appends "key":value,... as codec_write and json_write do together; a comma first unless an object
 * has just been opened. ERR_INVALID as codec_write; too large shows in buf_check. */
MUST_USE int codec_write_direct(struct buf *out, const struct codec_field *field, size_t n,
                                const void *in, struct err *e);
/* Opens the object and writes its schema. */
void codec_open_direct(struct buf *out, const char *schema);

#endif
