/* verifier/options.h - the parameters of a check: JSON object to struct through a table.
 *
 * The struct holds the defaults before the call. Unknown keys are refused with the known ones.
 * Texts and JSON values are borrowed from the parameters. */
#ifndef VERIFIER_OPTIONS_H
#define VERIFIER_OPTIONS_H

#include "common/config.h"
#include "common/json.h"

enum option_type {
    OPTION_BOOL,  /* bool */
    OPTION_INT,   /* int64_t */
    OPTION_REAL,  /* double */
    OPTION_TEXT,  /* struct str */
    OPTION_ENUM,  /* int, index of the choice */
    OPTION_TEXTS, /* struct cfg_text_list; one text counts as a list of one */
    OPTION_JSON,  /* const json_t *, an object */
    OPTION_ANY    /* const json_t *, any value but null */
};

struct option {
    const char *key;
    enum option_type type;
    size_t offset;
    double min, max;            /* INT, REAL */
    const char *const *choices; /* ENUM, NULL-terminated */
    const char *help;
};

enum { OPTION_MAX_TEXTS = 256 };

/* ERR_INVALID: path, what was found, what is allowed. Lists live in the arena. */
MUST_USE int options_read(const struct option *option, size_t n, const struct json_at *params,
                          struct arena *a, void *out, struct err *e);
/* False and the message when a key of the object is in no row. */
MUST_USE int options_refuse_unknown(const struct option *option, size_t n,
                                    const struct json_at *params, struct err *e);

#endif
