/* How the value of each keyword is read: type, range and names are checked here, so that running a
 * rule never meets anything else. */
#include "verifier/schema/node.h"

#include <stdio.h>

int compile_any(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c, (void)at, (void)r, (void)e;
    return ERR_OK;
}

int compile_text(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    return r->value->type == TREE_STRING ? ERR_OK : place_refuse(at, r->value, "a string", e);
}

int compile_list(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    return r->value->type == TREE_ARRAY ? ERR_OK : place_refuse(at, r->value, "an array", e);
}

int compile_flag(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    bool fits = r->value->type == TREE_TRUE || r->value->type == TREE_FALSE;
    return fits ? ERR_OK : place_refuse(at, r->value, "true or false", e);
}

int compile_number(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    return r->value->type == TREE_NUMBER ? ERR_OK : place_refuse(at, r->value, "a number", e);
}

int compile_divisor(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    const struct json_node *v = r->value;
    bool fits = v->type == TREE_NUMBER && !v->number.is_negative && v->number.digits.n > 0 &&
                v->number.digits.n <= DECIMAL_DIVISOR_DIGITS;
    return fits ? ERR_OK : place_refuse(at, v, "a number above 0 of at most 18 digits", e);
}

int compile_count(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    bool fits = r->value->type == TREE_NUMBER && decimal_to_count(&r->value->number, &r->count);
    return fits ? ERR_OK : place_refuse(at, r->value, "an integer from 0", e);
}

static bool is_type_name(const struct json_node *v)
{
    static const char *const names[] = {"null",   "boolean", "object", "array",
                                        "number", "string",  "integer"};
    for (size_t i = 0; v->type == TREE_STRING && i < sizeof names / sizeof names[0]; i++)
        if (str_eq_c(v->text, names[i]))
            return true;
    return false;
}

int compile_types(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    static const char allowed[] =
        "null, boolean, object, array, number, string, integer, or a list of them";
    const struct json_node *v = r->value;
    if (v->type != TREE_ARRAY)
        return is_type_name(v) ? ERR_OK : place_refuse(at, v, allowed, e);
    for (uint32_t i = 0; i < v->n; i++)
        if (!is_type_name(&v->child[i]))
            return place_refuse(at, &v->child[i], allowed, e);
    return v->n ? ERR_OK : place_refuse(at, v, allowed, e);
}

static int check_names(const struct place *at, const struct json_node *v, struct err *e)
{
    if (v->type != TREE_ARRAY)
        return place_refuse(at, v, "an array of strings", e);
    for (uint32_t i = 0; i < v->n; i++)
        if (v->child[i].type != TREE_STRING)
            return place_refuse(at, &v->child[i], "a string", e);
    return ERR_OK;
}

int compile_names(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    return check_names(at, r->value, e);
}

int compile_name_lists(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    if (r->value->type != TREE_OBJECT)
        return place_refuse(at, r->value, "an object of arrays", e);
    for (uint32_t i = 0; i < r->value->n; i++) {
        struct place here = {at, r->value->child[i].key, at->depth + 1};
        int rc = check_names(&here, &r->value->child[i], e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

int compile_refused(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    char where[120];
    place_text(at, where, sizeof where);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: keyword '%s' is not supported; allowed: the keywords of draft 2020-12, but "
                   "$vocabulary",
                   where, r->keyword->name);
}

int compile_dialect(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    (void)c;
    const struct json_node *v = r->value;
    bool fits = v->type == TREE_STRING &&
                (str_eq_c(v->text, "https://json-schema.org/draft/2020-12/schema") ||
                 str_eq_c(v->text, "https://json-schema.org/draft/2020-12/schema#"));
    return fits ? ERR_OK
                : place_refuse(at, v,
                               "https://json-schema.org/draft/2020-12/schema (no other "
                               "draft is supported)",
                               e);
}

static int open_pattern(const struct place *at, struct rule *r, struct str text, unsigned flags,
                        struct err *e)
{
    struct pattern **to = &r->pattern[r->n_pattern];
    int rc = pattern_open(to, text.n ? text : STR("(?:)"), flags, e);
    if (rc == ERR_OK) {
        r->n_pattern++;
        return rc;
    }
    char where[100];
    place_text(at, where, sizeof where);
    return err_wrap(e, "%s", where);
}

int compile_pattern(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    int rc = compile_text(c, at, r, e);
    if (rc != ERR_OK)
        return rc;
    r->pattern = arena_array(c->arena, 1, sizeof *r->pattern);
    return r->pattern ? open_pattern(at, r, r->value->text, PATTERN_ECMA, e)
                      : err_set(e, ERR_NOMEM, "no memory for a schema");
}

static int refuse_format(const struct place *at, const struct rule *r, struct err *e)
{
    struct buf known;
    buf_init(&known, KiB);
    format_names(&known);
    buf_put(&known, "", 1);
    int rc = place_refuse(at, r->value, known.p ? known.p : "", e);
    buf_free(&known);
    return rc;
}

int compile_format(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    int rc = compile_text(c, at, r, e);
    if (rc != ERR_OK || !c->options.asserts_format)
        return rc;
    r->format = format_find(r->value->text);
    if (!r->format)
        return refuse_format(at, r, e);
    r->pattern = arena_array(c->arena, 1, sizeof *r->pattern);
    return r->pattern ? open_pattern(at, r, str_from(format_pattern(r->format)), 0, e)
                      : err_set(e, ERR_NOMEM, "no memory for a schema");
}

int compile_one(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    return compile_schema(c, r->value, r->node->resource, at, &r->sub, e);
}

static int compile_children(struct compile *c, const struct place *at, struct rule *r,
                            struct err *e)
{
    int rc = ERR_OK;
    r->list = arena_array(c->arena, r->value->n ? r->value->n : 1, sizeof *r->list);
    if (!r->list)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    for (uint32_t i = 0; i < r->value->n && rc == ERR_OK; i++) {
        char index[16];
        int n = snprintf(index, sizeof index, "%u", i);
        struct str key = r->value->child[i].key;
        struct place here = {at, key.p ? key : (struct str){index, (size_t)n}, at->depth + 1};
        rc = compile_schema(c, &r->value->child[i], r->node->resource, &here, &r->list[i], e);
    }
    return rc;
}

int compile_many(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    if (r->value->type != TREE_ARRAY || r->value->n == 0)
        return place_refuse(at, r->value, "an array of at least one schema", e);
    return compile_children(c, at, r, e);
}

int compile_map(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    if (r->value->type != TREE_OBJECT)
        return place_refuse(at, r->value, "an object of schemas", e);
    return compile_children(c, at, r, e);
}

int compile_patterns(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    int rc = compile_map(c, at, r, e);
    if (rc != ERR_OK)
        return rc;
    r->pattern = arena_array(c->arena, r->value->n ? r->value->n : 1, sizeof *r->pattern);
    if (!r->pattern)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    for (uint32_t i = 0; i < r->value->n && rc == ERR_OK; i++)
        rc = open_pattern(at, r, r->value->child[i].key, PATTERN_ECMA, e);
    return rc;
}

int compile_reference(struct compile *c, const struct place *at, struct rule *r, struct err *e)
{
    int rc = compile_text(c, at, r, e);
    if (rc != ERR_OK)
        return rc;
    char where[120];
    place_text(at, where, sizeof where);
    r->where = arena_str(c->arena, str_from(where));
    r->next_ref = c->refs;
    c->refs = r;
    return r->where.p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a schema");
}
