/* common/config.h - YAML to structs through option tables; unknown keys are errors.
 *
 * A table describes one mapping. Every option has a default, a range, a unit and a sentence; the
 * reference text, --print-config and the checks all come from it. Messages name file, line, key,
 * what was found and what is allowed (and the nearest known key). One YAML feature set: no anchors,
 * no tags, one document. */
#ifndef COMMON_CONFIG_H
#define COMMON_CONFIG_H

#include "common/arena.h"
#include "common/buf.h"

enum cfg_type { CFG_BOOL, CFG_INT, CFG_REAL, CFG_TEXT, CFG_ENUM, CFG_TEXT_LIST, CFG_MAP, CFG_LIST };

struct cfg_text_list {
    struct str *item;
    uint32_t n;
};

struct cfg_table;
struct cfg_option {
    const char *key;
    const char *was; /* NULL, or an earlier name: refused with the one that replaced it */
    enum cfg_type type;
    size_t offset;               /* in the struct: bool, int64_t, double, struct str, int (enum),
                                    cfg_text_list, nested struct, struct cfg_list */
    const char *fallback;        /* YAML scalar text; NULL = required, "" = empty */
    double min, max;             /* INT, REAL; for TEXT max = longest length (0 = 4096) */
    const char *const *choices;  /* ENUM, NULL-terminated; value = index */
    const struct cfg_table *sub; /* MAP, LIST: the table of the element */
    const char *unit;            /* "ms", "bytes", "" */
    const char *help;            /* what it does and when to change it */
};

struct cfg_list { /* elements of sub->size bytes each, in the arena */
    void *item;
    uint32_t n;
};

struct cfg_table {
    const char *name;
    size_t size; /* of the struct */
    const struct cfg_option *option;
    uint32_t n_option;
    uint32_t max_items; /* for LIST; 0 = 64 */
    /* Optional last check across fields; path is like "routes[0]". */
    int (*check)(const void *value, const char *path, struct err *e);
    /* When set, unknown keys of this mapping are not refused but kept as canonical JSON text in
     * the struct str at this offset (for per-kind parameters). 0 = refuse. */
    size_t extra_offset;
};

/* Fills out (sub->size of table) from defaults, then the file (NULL = none), then the overrides
 * "a.b=value" or "routes[0].policy=hold". Memory from the arena. */
MUST_USE int cfg_load(const struct cfg_table *table, const char *path, const char *const *overrides,
                      size_t n_overrides, struct arena *a, void *out, struct err *e);
/* The effective configuration as YAML. */
MUST_USE int cfg_print(const struct cfg_table *table, const void *value, struct buf *out,
                       struct err *e);
/* The reference: every key with type, unit, default, range and sentence, as YAML comments. */
void cfg_reference(const struct cfg_table *table, struct buf *out);
/* The same as JSON Schema 2020-12. */
MUST_USE int cfg_json_schema(const struct cfg_table *table, struct buf *out, struct err *e);

#endif
