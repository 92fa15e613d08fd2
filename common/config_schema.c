/* An option table as JSON Schema 2020-12, for editors and for tests with a public validator. */
#include "common/config.h"

#include "common/json.h"

#include <stdlib.h>

/* json_object_set_new takes v also on failure; a NULL v fails too. */
static bool put(json_t *obj, const char *key, json_t *v)
{
    return json_object_set_new(obj, key, v) == 0;
}

static json_t *map_schema(const struct cfg_table *t);

static bool put_range(json_t *s, const struct cfg_option *o)
{
    return put(s, "minimum", json_num(o->min)) && put(s, "maximum", json_num(o->max));
}

static bool put_choices(json_t *s, const struct cfg_option *o)
{
    json_t *list = json_array();
    bool is_good = list != NULL;
    for (size_t i = 0; is_good && o->choices[i]; i++)
        is_good = json_array_append_new(list, json_string(o->choices[i])) == 0;
    return put(s, "enum", list) && is_good;
}

static bool put_number_default(json_t *s, const struct cfg_option *o)
{
    int64_t i = 0;
    double d = 0;
    if (o->type == CFG_INT && str_to_i64(str_from(o->fallback), &i, NULL) == ERR_OK)
        return put(s, "default", json_integer(i));
    if (o->type == CFG_REAL && str_to_f64(str_from(o->fallback), &d, NULL) == ERR_OK)
        return put(s, "default", json_num(d));
    return false;
}

static bool put_default(json_t *s, const struct cfg_option *o)
{
    if (!o->fallback || o->type == CFG_TEXT_LIST)
        return true;
    if (o->type == CFG_BOOL)
        return put(s, "default", json_boolean(str_eq_c(STR("true"), o->fallback)));
    if (o->type == CFG_INT || o->type == CFG_REAL)
        return put_number_default(s, o);
    return put(s, "default", json_string(o->fallback));
}

static json_t *scalar_schema(const struct cfg_option *o)
{
    static const char *const types[] = {
        [CFG_BOOL] = "boolean", [CFG_INT] = "integer", [CFG_REAL] = "number",
        [CFG_TEXT] = "string",  [CFG_ENUM] = "string", [CFG_TEXT_LIST] = "array",
    };
    json_t *s = json_object();
    bool is_good = s && put(s, "type", json_string(types[o->type])) && put_default(s, o);
    if (is_good && (o->type == CFG_INT || o->type == CFG_REAL))
        is_good = put_range(s, o);
    if (is_good && o->type == CFG_ENUM)
        is_good = put_choices(s, o);
    if (is_good && o->type == CFG_TEXT)
        is_good = put(s, "maxLength", json_integer(o->max > 0 ? (json_int_t)o->max : 4096));
    if (is_good && o->type == CFG_TEXT_LIST)
        is_good = put(s, "items", json_pack("{s:[s,s]}", "type", "string", "number"));
    if (!is_good) {
        json_decref(s);
        return NULL;
    }
    return s;
}

static json_t *option_schema(const struct cfg_option *o)
{
    json_t *s = NULL;
    bool is_good = true;
    if (o->type == CFG_MAP) {
        s = map_schema(o->sub);
    } else if (o->type == CFG_LIST) {
        s = json_pack("{s:s, s:i}", "type", "array", "maxItems",
                      (int)(o->sub->max_items ? o->sub->max_items : 64));
        is_good = put(s, "items", map_schema(o->sub));
    } else {
        s = scalar_schema(o);
    }
    if (s && is_good && o->help)
        is_good = put(s, "description", json_string(o->help));
    if (s && !is_good) {
        json_decref(s);
        return NULL;
    }
    return s;
}

static json_t *map_schema(const struct cfg_table *t)
{
    json_t *s = json_pack("{s:s}", "type", "object"), *properties = json_object(),
           *required = json_array();
    bool is_good = s && properties && required;
    for (uint32_t i = 0; is_good && i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        is_good = put(properties, o->key, option_schema(o));
        if (is_good && !o->fallback && o->type != CFG_MAP && o->type != CFG_LIST)
            is_good = json_array_append_new(required, json_string(o->key)) == 0;
    }
    bool was_put = put(s, "properties", properties);
    was_put = put(s, "required", required) && was_put;
    was_put = put(s, "additionalProperties", json_boolean(t->extra_offset != 0)) && was_put;
    if (!is_good || !was_put) {
        json_decref(s);
        return NULL;
    }
    return s;
}

int cfg_json_schema(const struct cfg_table *table, struct buf *out, struct err *e)
{
    json_t *s = map_schema(table);
    if (!s || !put(s, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"))) {
        json_decref(s);
        return err_set(e, ERR_NOMEM, "out of memory for the schema of %s", table->name);
    }
    int rc = json_write(s, out, e);
    json_decref(s);
    return rc;
}
