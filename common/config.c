/* Option tables over a configuration tree: defaults, then the file, then --set, then the checks.
 *
 * Every refusal says where, what was found and what is allowed. A key that no table knows is an
 * error with the nearest known name, since a misspelt key that is ignored is the worst kind. */
#include "common/config.h"

#include "common/config_value.h"
#include "common/io.h"
#include "common/json.h"
#include "common/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1024 * 1024, DEFAULT_MAX_ITEMS = 64, PATH_CAP = 160, MAX_KEYS = 96 };

struct loader {
    struct arena *arena;
    const char *source;
    struct err *e;
};

static int no_memory(const struct loader *l)
{
    return err_set(l->e, ERR_NOMEM, "out of memory for the configuration");
}

static void join(char out[PATH_CAP], const char *path, const char *key)
{
    snprintf(out, PATH_CAP, "%s%s%s", path, *path ? "." : "", key);
}

static void *field_of(const struct cfg_option *o, void *value)
{
    return (char *)value + o->offset;
}

/* Defaults. */

static int fill_defaults(const struct loader *l, const struct cfg_table *t, void *value)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        int rc = ERR_OK;
        if (o->type == CFG_MAP)
            rc = fill_defaults(l, o->sub, field_of(o, value));
        else if (o->type == CFG_LIST)
            *(struct cfg_list *)field_of(o, value) = (struct cfg_list){0};
        else
            rc = cfg_read_fallback(o, l->arena, field_of(o, value), l->e);
        if (rc != ERR_OK)
            return rc;
    }
    if (t->extra_offset)
        *(struct str *)((char *)value + t->extra_offset) = STR("{}");
    return ERR_OK;
}

/* Reading a tree. */

static int read_map(const struct loader *l, const struct cfg_table *t, const struct cfg_node *n,
                    const char *path, void *value);

static int refuse_node(const struct loader *l, const struct cfg_option *o, const struct cfg_node *n,
                       const char *path)
{
    char want[120];
    const struct cfg_place at = {l->source, n->line, path};
    static const char *const found[] = {
        [CFG_NODE_SCALAR] = "text", [CFG_NODE_MAP] = "a mapping", [CFG_NODE_LIST] = "a list"};
    return cfg_refuse(&at, l->e, "must be %s, got %s", cfg_describe(o, want, sizeof want),
                      found[n->type]);
}

static int read_list(const struct loader *l, const struct cfg_option *o, const struct cfg_node *n,
                     const char *path, void *field)
{
    uint32_t max_items = o->sub->max_items ? o->sub->max_items : DEFAULT_MAX_ITEMS;
    const struct cfg_place at = {l->source, n->line, path};
    if (n->type != CFG_NODE_LIST)
        return refuse_node(l, o, n, path);
    if (n->n_child > max_items)
        return cfg_refuse(&at, l->e, "has %u items; at most %u are allowed", n->n_child, max_items);
    struct cfg_list list = {.item = arena_array(l->arena, n->n_child + 1u, o->sub->size),
                            .n = n->n_child};
    if (!list.item)
        return no_memory(l);
    uint32_t i = 0;
    for (const struct cfg_node *c = n->child; c; c = c->next, i++) {
        char item_path[PATH_CAP];
        snprintf(item_path, sizeof item_path, "%s[%u]", path, i);
        void *item = (char *)list.item + i * o->sub->size;
        int rc = fill_defaults(l, o->sub, item);
        if (rc == ERR_OK)
            rc = read_map(l, o->sub, c, item_path, item);
        if (rc != ERR_OK)
            return rc;
    }
    *(struct cfg_list *)field = list;
    return ERR_OK;
}

static int read_option(const struct loader *l, const struct cfg_option *o, const struct cfg_node *n,
                       const char *path, void *value)
{
    void *field = field_of(o, value);
    if (o->type == CFG_MAP)
        return read_map(l, o->sub, n, path, field);
    if (o->type == CFG_LIST)
        return read_list(l, o, n, path, field);
    const struct cfg_place at = {l->source, n->line, path};
    return cfg_read_scalar(o, n, &at, l->arena, field, l->e);
}

static const struct cfg_option *find_option(const struct cfg_table *t, struct str key)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        if (str_eq_c(key, t->option[i].key))
            return &t->option[i];
    }
    return NULL;
}

/* Today's name of a key that was renamed, or NULL. */
static const char *find_earlier(const struct cfg_table *t, struct str key)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        if (t->option[i].was && str_eq_c(key, t->option[i].was))
            return t->option[i].key;
    }
    return NULL;
}

static int unknown_key(const struct loader *l, const struct cfg_table *t, struct str key, int line,
                       const char *path)
{
    const char *names[MAX_KEYS];
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_option && n < MAX_KEYS; i++)
        names[n++] = t->option[i].key;
    const char *meant = nearest_name(key, names, n);
    char full[PATH_CAP], hint[120] = "";
    snprintf(full, sizeof full, "%s%s%.60s", path, *path ? "." : "", key.p);
    if (find_earlier(t, key))
        snprintf(hint, sizeof hint, "; it is %s now", find_earlier(t, key));
    else if (meant)
        snprintf(hint, sizeof hint, "; did you mean %s?", meant);
    else
        snprintf(hint, sizeof hint, " of %s; see the reference for the known ones", t->name);
    const struct cfg_place at = {l->source, line, full};
    return cfg_refuse(&at, l->e, "unknown key%s", hint);
}

static int check_duplicates(const struct loader *l, const struct cfg_node *map, const char *path)
{
    for (const struct cfg_node *c = map->child; c; c = c->next) {
        for (const struct cfg_node *d = c->next; d; d = d->next) {
            if (str_eq(c->key, d->key)) {
                char full[PATH_CAP];
                join(full, path, d->key.p);
                const struct cfg_place at = {l->source, d->line, full};
                return cfg_refuse(&at, l->e, "duplicate key, first on line %d", c->line);
            }
        }
    }
    return ERR_OK;
}

/* What the table does not know, as canonical JSON, into the struct str at extra_offset. */
static int keep_extra(const struct loader *l, const struct cfg_table *t, const struct cfg_node *map,
                      void *value)
{
    struct cfg_node extra = {.type = CFG_NODE_MAP, .line = map->line};
    struct cfg_node **end = &extra.child;
    for (const struct cfg_node *c = map->child; c; c = c->next) {
        if (find_option(t, c->key))
            continue;
        struct cfg_node *copy = arena_alloc(l->arena, sizeof *copy);
        if (!copy)
            return no_memory(l);
        *copy = *c;
        copy->next = NULL;
        *end = copy;
        end = &copy->next;
        extra.n_child++;
    }
    struct buf b;
    buf_init(&b, MAX_FILE_BYTES);
    int rc = cfg_node_to_json(&extra, &b, l->e);
    struct str text = rc == ERR_OK ? arena_str(l->arena, buf_str(&b)) : (struct str){0};
    buf_free(&b);
    if (rc == ERR_OK && !text.p)
        rc = no_memory(l);
    if (rc == ERR_OK)
        *(struct str *)((char *)value + t->extra_offset) = text;
    return rc;
}

static int check_required(const struct loader *l, const struct cfg_table *t,
                          const struct cfg_node *map, const char *path)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        bool may_be_required = o->type != CFG_MAP && o->type != CFG_LIST;
        if (may_be_required && !o->fallback && cfg_node_is_null(cfg_node_find(map, o->key))) {
            char full[PATH_CAP], want[120];
            join(full, path, o->key);
            const struct cfg_place at = {l->source, map->line, full};
            return cfg_refuse(&at, l->e, "missing; must be %s", cfg_describe(o, want, sizeof want));
        }
    }
    return ERR_OK;
}

static int read_map(const struct loader *l, const struct cfg_table *t, const struct cfg_node *n,
                    const char *path, void *value)
{
    const struct cfg_option as_map = {.type = CFG_MAP};
    if (n->type != CFG_NODE_MAP)
        return refuse_node(l, &as_map, n, *path ? path : t->name);
    int rc = check_duplicates(l, n, path);
    if (rc == ERR_OK)
        rc = check_required(l, t, n, path);
    for (const struct cfg_node *c = n->child; c && rc == ERR_OK; c = c->next) {
        const struct cfg_option *o = find_option(t, c->key);
        char full[PATH_CAP];
        join(full, path, c->key.p);
        if (!o && !t->extra_offset)
            rc = unknown_key(l, t, c->key, c->line, path);
        else if (o && !cfg_node_is_null(c))
            rc = read_option(l, o, c, full, value);
    }
    return rc == ERR_OK && t->extra_offset ? keep_extra(l, t, n, value) : rc;
}

static int read_file(const struct loader *l, const struct cfg_table *t, void *value)
{
    struct buf b;
    buf_init(&b, MAX_FILE_BYTES);
    struct cfg_node *root = NULL;
    int rc = io_read_file(l->source, &b, l->e);
    if (rc == ERR_OK)
        rc = cfg_parse_yaml(buf_str(&b), l->source, l->arena, &root, l->e);
    buf_free(&b);
    if (rc == ERR_OK && !cfg_node_is_null(root))
        rc = read_map(l, t, root, "", value);
    return rc;
}

/* Overrides: "a.b[2].c=value". */

/* Splits "key[3]" into key and index; -1 = no index. False: not of that form. */
static bool split_index(struct str part, struct str *key, int64_t *index)
{
    ptrdiff_t open = str_find(part, STR("["), 0);
    *index = -1;
    *key = part;
    if (open < 0)
        return part.n > 0;
    if (part.p[part.n - 1] != ']')
        return false;
    *key = str_slice(part, 0, (size_t)open);
    struct str digits = str_slice(part, (size_t)open + 1, part.n - 1);
    return str_to_i64(digits, index, NULL) == ERR_OK && *index >= 0;
}

static int apply_value(const struct loader *l, const struct cfg_option *o, struct str text,
                       const char *path, void *value)
{
    struct cfg_node scalar = {.type = CFG_NODE_SCALAR, .text = text, .is_plain = true};
    struct cfg_node *n = &scalar;
    bool is_structured = o->type == CFG_MAP || o->type == CFG_LIST ||
                         (o->type == CFG_TEXT_LIST && str_starts(text, STR("[")));
    if (is_structured) {
        int rc = cfg_parse_yaml(text, l->source, l->arena, &n, l->e);
        if (rc != ERR_OK)
            return rc;
    }
    if (!n)
        n = &scalar;
    n->line = 0;
    return read_option(l, o, n, path, value);
}

/* One free-form key put over the JSON text that holds them. The value is read as YAML. */
static int set_extra(const struct loader *l, const struct cfg_table *t, struct str key,
                     struct str text, void *value)
{
    struct str *kept = (struct str *)((char *)value + t->extra_offset);
    struct cfg_node *n = NULL;
    json_t *doc = NULL, *item = NULL;
    struct buf b;
    buf_init(&b, MAX_FILE_BYTES);
    int rc = cfg_parse_yaml(text, l->source, l->arena, &n, l->e);
    const char *name = arena_str(l->arena, key).p;
    if (rc == ERR_OK && !n)
        rc = err_set(l->e, ERR_INVALID, "%s: a value is missing", l->source);
    if (rc == ERR_OK)
        rc = cfg_node_to_json(n, &b, l->e);
    if (rc == ERR_OK)
        rc = json_parse(buf_str(&b), JSON_ANY_VALUE, &item, l->e);
    if (rc == ERR_OK)
        rc = json_parse(*kept, 0, &doc, l->e);
    if (rc == ERR_OK && (!name || json_object_set(doc, name, item) != 0))
        rc = no_memory(l);
    buf_reset(&b);
    if (rc == ERR_OK)
        rc = json_write_canonical(doc, &b, l->e);
    if (rc == ERR_OK)
        *kept = arena_str(l->arena, buf_str(&b));
    if (rc == ERR_OK && !kept->p)
        rc = no_memory(l);
    json_decref(item);
    json_decref(doc);
    buf_free(&b);
    return rc;
}

static int apply_override(const struct loader *l, const struct cfg_table *t, struct str path,
                          struct str text, void *value)
{
    struct str rest = path, part, key;
    const struct cfg_place at = {l->source, 0, path.p};
    int64_t index = -1;
    while (str_split(&rest, '.', &part)) {
        if (!split_index(part, &key, &index))
            return cfg_refuse(&at, l->e, "must look like engine.port or routes[0].name");
        const struct cfg_option *o = find_option(t, key);
        bool is_last = rest.p == NULL;
        if (!o && t->extra_offset && is_last && index < 0)
            return set_extra(l, t, key, text, value);
        if (!o)
            return unknown_key(l, t, arena_str(l->arena, key), 0, "");
        if (o->type == CFG_LIST && index >= 0) {
            const struct cfg_list *list = field_of(o, value);
            if (index >= list->n)
                return cfg_refuse(&at, l->e, "there is no item %d; the list has %u", (int)index,
                                  list->n);
            value = (char *)list->item + (size_t)index * o->sub->size;
        } else if (index >= 0) {
            return cfg_refuse(&at, l->e, "only a list takes an index");
        } else if (is_last) {
            return apply_value(l, o, text, path.p, value);
        } else if (o->type == CFG_MAP) {
            value = field_of(o, value);
        } else {
            return cfg_refuse(&at, l->e, "%s has no keys below it", o->key);
        }
        t = o->sub;
    }
    return cfg_refuse(&at, l->e, "names a whole item; name one key of it");
}

static int apply_overrides(struct arena *a, const struct cfg_table *t, const char *const *overrides,
                           size_t n, void *value, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct str whole = str_from(overrides[i]);
        ptrdiff_t equals = str_find(whole, STR("="), 0);
        if (equals <= 0)
            return err_set(e, ERR_INVALID, "--set %.80s: must be key=value", overrides[i]);
        struct str source = arena_printf(a, "--set %.80s", overrides[i]);
        struct str path = arena_str(a, str_slice(whole, 0, (size_t)equals));
        struct str text = arena_str(a, str_slice(whole, (size_t)equals + 1, whole.n));
        const struct loader l = {a, source.p, e};
        if (!source.p || !path.p || !text.p)
            return no_memory(&l);
        int rc = apply_override(&l, t, path, text, value);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Checks across fields, innermost first. */

static int run_checks(const struct loader *l, const struct cfg_table *t, const char *path,
                      const void *value)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        const void *field = (const char *)value + o->offset;
        const struct cfg_list *list = o->type == CFG_LIST ? field : NULL;
        char full[PATH_CAP];
        join(full, path, o->key);
        int rc = o->type == CFG_MAP ? run_checks(l, o->sub, full, field) : ERR_OK;
        for (uint32_t k = 0; list && k < list->n && rc == ERR_OK; k++) {
            char item[PATH_CAP + 16];
            snprintf(item, sizeof item, "%s[%u]", full, k);
            rc = run_checks(l, o->sub, item, (const char *)list->item + k * o->sub->size);
        }
        if (rc != ERR_OK)
            return rc;
    }
    return t->check ? t->check(value, path, l->e) : ERR_OK;
}

int cfg_load(const struct cfg_table *table, const char *path, const char *const *overrides,
             size_t n_overrides, struct arena *a, void *out, struct err *e)
{
    const struct loader l = {a, path ? path : "configuration", e};
    memset(out, 0, table->size);
    int rc = fill_defaults(&l, table, out);
    if (rc == ERR_OK && path)
        rc = read_file(&l, table, out);
    if (rc == ERR_OK)
        rc = apply_overrides(a, table, overrides, n_overrides, out, e);
    if (rc != ERR_OK)
        return rc;
    rc = run_checks(&l, table, "", out);
    return rc == ERR_OK ? ERR_OK : err_wrap(e, "%s", l.source);
}
