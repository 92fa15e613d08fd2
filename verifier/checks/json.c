/* json: the output is JSON (strict: all of it; embedded: the value inside the answer), with the
 * keys asked for, of the types asked for, and the values the reference has. The grammar decides
 * (verifier/text/json_scan); values are only built when they are needed. Linear. */
#include "verifier/check.h"
#include "verifier/text/json_find.h"
#include "verifier/text/json_scan.h"
#include "verifier/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct json_check {
    int mode;
    struct cfg_text_list keys;
    const json_t *types;
    bool only_keys, compare, ignore_case, partial;
    struct str field;
    struct arena arena;
};

enum { MODE_STRICT, MODE_EMBEDDED };
static const char *const MODES[] = {"strict", "embedded", NULL};
#define AT(field) offsetof(struct json_check, field)
static const struct option OPTIONS[] = {
    {"mode", OPTION_ENUM, AT(mode), 0, 0, MODES, "whole output, or the value inside it"},
    {"keys", OPTION_TEXTS, AT(keys), 0, 0, NULL, "keys the object must have"},
    {"types", OPTION_JSON, AT(types), 0, 0, NULL, "key to type; each key must be there"},
    {"only_keys", OPTION_BOOL, AT(only_keys), 0, 0, NULL, "no key that was not asked for"},
    {"compare", OPTION_BOOL, AT(compare), 0, 0, NULL, "the value must equal the reference"},
    {"ignore_case", OPTION_BOOL, AT(ignore_case), 0, 0, NULL, "compare texts case folded"},
    {"partial", OPTION_BOOL, AT(partial), 0, 0, NULL, "score the share of keys that are right"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field with the reference"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static bool is_any(const json_t *v)
{
    return v != NULL;
}

/* JSON Schema's reading: 1.0 is an integer, true is not a number. */
static bool is_whole(const json_t *v)
{
    double d = json_number_value(v);
    return json_is_integer(v) || (json_is_real(v) && floor(d) == d);
}

static bool is_text(const json_t *v)
{
    return json_is_string(v);
}

static bool is_number(const json_t *v)
{
    return json_is_number(v);
}

static bool is_boolean(const json_t *v)
{
    return json_is_boolean(v);
}

static bool is_object(const json_t *v)
{
    return json_is_object(v);
}

static bool is_array(const json_t *v)
{
    return json_is_array(v);
}

static bool is_null(const json_t *v)
{
    return json_is_null(v);
}

static const struct {
    const char *name;
    bool (*fits)(const json_t *v);
} TYPES[] = {
    {"any", is_any},         {"string", is_text},   {"number", is_number}, {"integer", is_whole},
    {"boolean", is_boolean}, {"object", is_object}, {"array", is_array},   {"null", is_null},
};
enum { TYPES_N = sizeof TYPES / sizeof TYPES[0] };

static int type_find(const json_t *name)
{
    for (int i = 0; i < TYPES_N; i++)
        if (json_is_string(name) && strcmp(json_string_value(name), TYPES[i].name) == 0)
            return i;
    return -1;
}

static int check_types(const json_t *types, struct err *e)
{
    const char *key;
    json_t *type;
    json_object_foreach((json_t *)types, key, type)
    {
        if (type_find(type) < 0)
            return err_set(e, ERR_INVALID,
                           "types.%.40s: found %.40s, allowed: any, string, number, integer, "
                           "boolean, object, array, null",
                           key,
                           json_is_string(type) ? json_string_value(type) : json_type_name(type));
    }
    return ERR_OK;
}

static void json_check_close(void *state)
{
    struct json_check *c = state;
    if (c)
        arena_free(&c->arena);
    free(c);
}

static int json_check_open(void **state, const struct json_at *params, struct err *e)
{
    struct json_check *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&c->arena, 256 * KiB);
    c->field = STR("reference");
    int rc = options_read(OPTIONS, OPTIONS_N, params, &c->arena, c, e);
    if (rc == ERR_OK)
        rc = check_types(c->types, e);
    if (rc == ERR_OK && c->only_keys && c->keys.n + json_object_size(c->types) == 0 && !c->compare)
        rc = err_set(e, ERR_INVALID, "only_keys: found true without keys, types or compare");
    if (rc != ERR_OK) {
        json_check_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static bool texts_equal(const struct json_check *c, const json_t *a, const json_t *b,
                        struct arena *arena)
{
    struct str x = {json_string_value(a), json_string_length(a)};
    struct str y = {json_string_value(b), json_string_length(b)};
    if (!c->ignore_case)
        return str_eq(x, y);
    unsigned forms = TEXT_FOLD_CASE | TEXT_ONE_SPACE;
    x = text_form(x, forms, arena);
    y = text_form(y, forms, arena);
    return x.p && y.p && str_eq(x, y);
}

static bool equal(const struct json_check *c, const json_t *a, const json_t *b,
                  struct arena *arena);

static bool objects_equal(const struct json_check *c, const json_t *a, const json_t *b,
                          struct arena *arena)
{
    const char *key;
    json_t *value;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)a, key, value)
    {
        const json_t *other = json_object_get(b, key);
        if (!other || !equal(c, value, other, arena))
            return false;
    }
    return true;
}

static bool arrays_equal(const struct json_check *c, const json_t *a, const json_t *b,
                         struct arena *arena)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!equal(c, json_array_get(a, i), json_array_get(b, i), arena))
            return false;
    return true;
}

/* 1.0 equals 1; a 64-bit integer is not rounded. Depth is bounded by the parser. */
static bool equal(const struct json_check *c, const json_t *a, const json_t *b, struct arena *arena)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_string(a))
        return texts_equal(c, a, b, arena);
    if (json_is_object(a))
        return objects_equal(c, a, b, arena);
    return !json_is_array(a) || arrays_equal(c, a, b, arena);
}

struct points {
    size_t right, wanted;
    const char *why;
};

static void point(struct points *p, bool is_right, const char *why)
{
    p->wanted++;
    p->right += is_right;
    if (!is_right && !p->why)
        p->why = why;
}

static bool is_asked(const struct json_check *c, const json_t *reference, const char *key)
{
    if (json_object_get(c->types, key) || json_object_get(reference, key))
        return true;
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (str_eq_c(c->keys.item[i], key))
            return true;
    return false;
}

static void judge_extra_keys(const struct json_check *c, const json_t *got, const json_t *reference,
                             struct points *p)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)got, key, value)
    {
        if (!is_asked(c, reference, key)) {
            point(p, false, "extra_key");
            return;
        }
    }
}

static void judge_object(const struct json_check *c, const json_t *got, const json_t *reference,
                         struct points *p, struct arena *arena)
{
    const char *key;
    json_t *value;
    for (uint32_t i = 0; i < c->keys.n; i++)
        point(p, json_object_get(got, c->keys.item[i].p) != NULL, "missing_key");
    json_object_foreach((json_t *)c->types, key, value)
    {
        const json_t *found = json_object_get(got, key);
        point(p, found && TYPES[type_find(value)].fits(found),
              found ? "wrong_type" : "missing_key");
    }
    json_object_foreach((json_t *)reference, key, value)
    {
        const json_t *found = json_object_get(got, key);
        point(p, found && equal(c, found, value, arena), found ? "wrong_value" : "missing_key");
    }
    if (c->only_keys)
        judge_extra_keys(c, got, reference, p);
}

static bool lists_keys(const struct json_check *c)
{
    return c->keys.n > 0 || json_object_size(c->types) > 0;
}

static bool wants_object(const struct json_check *c, const json_t *reference)
{
    return lists_keys(c) || c->only_keys || json_is_object(reference);
}

/* The whole value against the reference: for what has no keys, and against extra keys when nothing
 * else says which are allowed. */
static void judge_whole(const struct json_check *c, const json_t *got, const json_t *reference,
                        struct points *p, struct arena *arena)
{
    if (reference && !json_is_object(reference))
        point(p, equal(c, got, reference, arena), "wrong_value");
    else if (reference && !c->partial && !p->why && !lists_keys(c))
        point(p, objects_equal(c, got, reference, arena), "extra_key");
}

/* reference is NULL unless it is to be compared. */
static struct check_verdict judge_value(const struct json_check *c, const json_t *got,
                                        const json_t *reference, struct arena *arena)
{
    struct points p = {0};
    bool has_keys = wants_object(c, reference);
    if (has_keys && !json_is_object(got))
        return check_pass_if(false, "not_an_object");
    if (has_keys)
        judge_object(c, got, reference, &p, arena);
    judge_whole(c, got, reference, &p, arena);
    if (c->partial && p.wanted)
        return check_share((double)p.right / (double)p.wanted, p.why);
    return check_pass_if(p.right == p.wanted, p.why);
}

static enum json_want wanted_kind(const struct json_check *c, const json_t *reference)
{
    if (wants_object(c, reference))
        return JSON_WANT_OBJECT;
    return json_is_array(reference) ? JSON_WANT_ARRAY : JSON_WANT_ANY;
}

static struct check_verdict json_check_run(const void *state, const struct check_item *item)
{
    const struct json_check *c = state;
    struct str text = item->output->text, value = text;
    const json_t *reference = c->compare ? check_metadata(item, c->field.p) : NULL;
    const char *why = "invalid_json";
    if (text.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    if (c->compare && !reference)
        return check_unscored("no_reference");
    if (c->mode == MODE_EMBEDDED && !json_find(text, wanted_kind(c, reference), &value, &why))
        return check_pass_if(false, why);
    enum json_scan_result scanned = json_scan_text(value);
    if (scanned == JSON_SCAN_DEEP)
        return check_unscored("inconclusive");
    if (scanned != JSON_SCAN_OK)
        return check_pass_if(false, why);
    if (!reference && !lists_keys(c))
        return check_pass_if(true, "");
    json_t *got = json_loadb(value.p, value.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!got) /* valid, but deeper or with larger numbers than can be held */
        return check_unscored("inconclusive");
    struct check_verdict v = judge_value(c, got, reference, item->arena);
    json_decref(got);
    return v;
}

const struct check_ops CHECK_JSON = {
    .kind = "json",
    .code_version = 2,
    .summary = "valid JSON, whole or inside the answer, with the keys and values asked for",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = json_check_open,
    .run = json_check_run,
    .close = json_check_close,
};
