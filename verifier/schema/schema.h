/* verifier/schema/schema.h - JSON Schema draft 2020-12 (core, applicator, unevaluated, validation,
 * format), compiled once, run on hostile values from any number of threads.
 *
 * Supported: everything but references to other documents. What is not supported or not known is
 * refused by schema_open, never ignored. Numbers are compared as written, without rounding.
 * Patterns follow ECMA-262. Work is counted: a value that costs too much is "inconclusive". */
#ifndef VERIFIER_SCHEMA_SCHEMA_H
#define VERIFIER_SCHEMA_SCHEMA_H

#include "verifier/check.h"

enum { SCHEMA_MAX_BYTES = 1 << 20, SCHEMA_MAX_NODES = 1 << 14, SCHEMA_MAX_DEPTH = 128 };

struct schema_options {
    bool asserts_format;  /* else format is an annotation, as the specification's default */
    bool ignores_unknown; /* keywords that the draft does not name are annotations */
};

struct schema;
/* text is borrowed until close. ERR_INVALID, ERR_UNSUPPORTED: where, which keyword, what was found,
 * what is allowed. */
MUST_USE int schema_open(struct schema **out, struct str text, struct schema_options options,
                         struct err *e);
void schema_close(struct schema *s);

/* text is one JSON value. Fails with "invalid_json" or the keyword that refuses it; unscored:
 * "inconclusive", "no_memory". Scratch memory comes from the item's arena. */
struct check_verdict schema_check(const struct schema *s, struct str text,
                                  const struct check_item *item);

#endif
