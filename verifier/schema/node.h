/* verifier/schema/node.h - inside of verifier/schema: compiled schemas and how they are run. */
#ifndef VERIFIER_SCHEMA_NODE_H
#define VERIFIER_SCHEMA_NODE_H

#include "verifier/schema/schema.h"
#include "verifier/text/json_tree.h"
#include "verifier/text/pattern.h"

struct schema_node;
struct rule;
struct format;

struct anchor {
    struct str name;
    const struct json_node *at;
    struct schema_node *node;
    bool is_dynamic;
    struct anchor *next;
};

struct resource { /* what one $id, or the whole text, names */
    struct str base;
    const struct json_node *root;
    struct anchor *anchors;
    struct resource *next;
};

/* Which children of one value some keyword has looked at (section 11 of the core draft). */
struct seen {
    uint8_t *bits;
    uint32_t n;
};

struct scope { /* the dynamic scope: resources entered, innermost first */
    const struct resource *resource;
    const struct scope *outer;
};

struct eval { /* one value being checked */
    const struct check_item *item;
    struct pattern_work *work;
    const struct scope *scope;
    uint64_t steps;
    uint32_t depth;
    const char *why;  /* innermost keyword that refused */
    const char *stop; /* why there is no verdict; NULL while there may be one */
};

typedef bool rule_fn(struct eval *ev, const struct rule *r, const struct json_node *v,
                     struct seen *seen);

struct place { /* where in the schema text, for messages */
    const struct place *outer;
    struct str key;
    uint32_t depth;
};

struct compile;
typedef int compile_fn(struct compile *c, const struct place *at, struct rule *r, struct err *e);

enum { SIBLINGS = 2 };
struct keyword {
    const char *name;
    compile_fn *compile;
    rule_fn *run;                     /* NULL: says nothing by itself */
    const char *sibling[SIBLINGS];    /* keywords beside it that it reads */
    bool is_in_place, names_failures; /* subschemas apply to the same value; hides inner reasons */
};
extern const struct keyword KEYWORDS[]; /* in the order in which they run */
extern const size_t KEYWORDS_N;

struct rule {
    const struct keyword *keyword;
    const struct json_node *value;
    struct schema_node *node;  /* whose rule this is */
    struct schema_node *sub;   /* one subschema, or where a reference leads */
    struct schema_node **list; /* [value->n] */
    struct pattern **pattern;  /* [n_pattern] */
    uint32_t n_pattern;
    uint64_t count;
    const struct format *format;
    struct str dynamic_name; /* $dynamicRef to a $dynamicAnchor */
    const struct rule *sibling[SIBLINGS];
    struct rule *next_ref; /* references are resolved at the end */
    struct str where;      /* of a reference */
};

struct schema_node {
    bool is_boolean, allows; /* a boolean schema */
    bool tracks;             /* has an unevaluated keyword */
    uint32_t n_rules, index;
    struct rule *rule;
    struct resource *resource;
};

struct compile {
    struct arena *arena;
    struct json_tree tree;
    struct schema_node **by_id; /* [tree.n_values] */
    struct schema_node **all;   /* [n_nodes] */
    uint32_t n_nodes;
    struct resource *resources;
    struct rule *refs;
    struct schema_options options;
};

struct schema {
    struct arena arena;
    struct schema_node *root, **all;
    uint32_t n_nodes;
};

/* compile.c */
MUST_USE int compile_schema(struct compile *c, const struct json_node *v, struct resource *in,
                            const struct place *at, struct schema_node **out, struct err *e);
void place_text(const struct place *at, char *out, size_t cap);
/* "schema.a.b: found a string, allowed: ..." */
int place_refuse(const struct place *at, const struct json_node *found, const char *allowed,
                 struct err *e);
compile_fn compile_any, compile_types, compile_list, compile_number, compile_divisor, compile_count,
    compile_pattern, compile_flag, compile_names, compile_name_lists, compile_format, compile_text,
    compile_one, compile_many, compile_map, compile_patterns, compile_reference, compile_refused,
    compile_dialect;

/* locate.c: resources, anchors, references */
MUST_USE int locate_enter(struct compile *c, const struct json_node *v, struct resource **in,
                          const struct place *at, struct err *e);
MUST_USE int locate_anchors(struct compile *c, const struct json_node *v, struct schema_node *node,
                            const struct place *at, struct err *e);
MUST_USE int locate_references(struct compile *c, struct err *e);
/* ERR_INVALID when a schema refers to itself without going into the value. */
MUST_USE int locate_loops(const struct compile *c, struct err *e);

/* evaluate.c */
bool eval_node(struct eval *ev, const struct schema_node *s, const struct json_node *v,
               struct seen *seen);
/* Another schema on the same value: what it saw counts when it holds. */
bool eval_in_place(struct eval *ev, const struct schema_node *s, const struct json_node *v,
                   struct seen *seen);
/* Counts work; false when the evaluation has been stopped. */
bool eval_charge(struct eval *ev, uint64_t steps);
bool eval_equal(struct eval *ev, const struct json_node *a, const struct json_node *b);
void seen_mark(struct seen *seen, uint32_t i);
bool seen_has(const struct seen *seen, uint32_t i);

/* assertions.c, applicators.c */
rule_fn run_type, run_enum, run_const, run_multiple_of, run_maximum, run_exclusive_maximum,
    run_minimum, run_exclusive_minimum, run_max_length, run_min_length, run_pattern, run_max_items,
    run_min_items, run_unique_items, run_max_properties, run_min_properties, run_required,
    run_dependent_required, run_format;
rule_fn run_reference, run_dynamic_reference, run_all_of, run_any_of, run_one_of, run_not, run_if,
    run_dependent_schemas, run_prefix_items, run_items, run_contains, run_properties,
    run_pattern_properties, run_additional_properties, run_property_names, run_unevaluated;

/* format.c */
const struct format *format_find(struct str name);
const char *format_pattern(const struct format *f); /* r->pattern[0], with PATTERN_ECMA off */
bool format_holds(const struct rule *r, struct eval *ev, struct str text);
void format_names(struct buf *out);

#endif
