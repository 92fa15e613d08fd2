/* controller/store/pack.h - outputs' texts, small on disk: zstd frames (RFC 8878) with a
 * dictionary.
 *
 * What does not become smaller stays text. A packer belongs to one thread. */
#ifndef CONTROLLER_STORE_PACK_H
#define CONTROLLER_STORE_PACK_H

#include "common/db.h"

struct packer;
struct packer *packer_new(void); /* NULL = no memory */
void packer_free(struct packer *p);

struct packed {
    struct str bytes;
    bool is_frame; /* else the text itself */
};
/* In the arena, or the text itself (borrowed). */
MUST_USE int packer_pack(struct packer *p, struct str text, struct arena *a, struct packed *out,
                         struct err *e);

struct unpacker;                     /* of one thread; holds the last text */
struct unpacker *unpacker_new(void); /* NULL = no memory */
void unpacker_free(struct unpacker *u);
/* The text of a bodies.packed column of the row a statement stands on, until the next one; p NULL
 * when the column is NULL. ERR_CORRUPT: not a frame, or of an absurd size. */
MUST_USE int unpacker_read(struct unpacker *u, struct db_stmt *q, int column, struct str *out,
                           struct err *e);
/* For SQL of this connection: unpack(packed) -> TEXT, sha256(text) -> BLOB. */
MUST_USE int pack_add_functions(struct db *d, struct err *e);

#endif
