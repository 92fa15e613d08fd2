/* Parameter sets as JSON. Keys come from the parameter table; the canonical text of a set decides
 * its hash, so encoding is the same for the same content whatever the order it was given in. */
#include "schemas/params.h"

#include "common/hash.h"
#include "common/json_members.h"
#include "common/nearest.h"
#include "schemas/plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SET_MAX_BYTES = 64 * 1024, MAX_WEIGHTS_BYTES = 256 };

static int unknown_key(const struct json_at *at, const char *key, struct err *e)
{
    const char *names[PARAM_COUNT + 3];
    size_t n = 0;
    for (int i = 0; i < PARAM_COUNT; i++)
        names[n++] = param_info((enum param_id)i)->name;
    names[n++] = "stop";
    names[n++] = "weights";
    names[n++] = "caps";
    const char *meant = nearest_name(str_from(key), names, n);
    char path[128];
    json_path(at, path, sizeof path);
    return err_set(e, ERR_INVALID, "%s.%.60s: unknown parameter%s%s%s", path, key,
                   meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static int decode_stop(const struct json_at *at, struct arena *a, struct params *out, struct err *e)
{
    size_t n = 0;
    int rc = json_get_array(at, PARAMS_MAX_STOP, &n, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(at, i);
        struct str s = {0};
        rc = json_get_str(&item, &s, e);
        if (rc == ERR_OK && (s.n == 0 || s.n > PARAMS_MAX_STOP_BYTES))
            rc = err_set(e, ERR_INVALID, "stop[%zu]: text of %zu bytes; 1 to %d are allowed", i,
                         s.n, PARAMS_MAX_STOP_BYTES);
        if (rc != ERR_OK)
            break;
        out->stop[i] = arena_str(a, s);
        if (!out->stop[i].p)
            rc = err_set(e, ERR_NOMEM, "out of memory for stop texts");
    }
    if (rc == ERR_OK)
        out->n_stop = (uint32_t)n;
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

static int decode_weights(const struct json_at *at, struct arena *a, struct params *out,
                          struct err *e)
{
    struct str s = {0};
    int rc = json_get_str(at, &s, e);
    if (rc == ERR_OK && s.n > MAX_WEIGHTS_BYTES)
        rc = err_set(e, ERR_INVALID, "weights: text of %zu bytes; at most %d are allowed", s.n,
                     MAX_WEIGHTS_BYTES);
    if (rc != ERR_OK)
        return rc;
    out->weights = arena_str(a, s);
    return out->weights.p ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory for the weights id");
}

static int decode_value(const struct json_at *at, enum param_id id, struct params *out,
                        struct err *e)
{
    const struct param_info *info = param_info(id);
    double v = 0;
    int64_t i = 0;
    int rc = info->is_integer ? json_get_i64(at, (int64_t)info->min, (int64_t)info->max, &i, e)
                              : json_get_f64(at, info->min, info->max, &v, e);
    if (rc != ERR_OK)
        return rc;
    return params_put(out, id, info->is_integer ? (double)i : v, e);
}

static int decode(const struct json_at *at, bool is_strict, struct arena *a, struct params *out,
                  struct err *e)
{
    *out = (struct params){0};
    int rc = json_get_object(at, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)at->v, key, value)
    {
        struct json_at field = json_field(at, key);
        enum param_id id;
        if (json_is_null(value))
            continue;
        if (param_find(str_from(key), &id))
            rc = decode_value(&field, id, out, e);
        else if (!strcmp(key, "stop"))
            rc = decode_stop(&field, a, out, e);
        else if (!strcmp(key, "weights"))
            rc = decode_weights(&field, a, out, e);
        else if (is_strict && strcmp(key, "caps") != 0)
            rc = unknown_key(at, key, e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

int params_decode(const struct json_at *at, struct arena *a, struct params *out, struct err *e)
{
    int rc = decode(at, true, a, out, e);
    if (rc == ERR_OK && json_object_get(at->v, "caps"))
        return err_set(e, ERR_INVALID, "caps: only a revision has caps, not these parameters");
    return rc;
}

int params_decode_known(const struct json_at *at, struct arena *a, struct params *out,
                        struct err *e)
{
    return decode(at, false, a, out, e);
}

bool params_take_plain(struct str object, struct params *out)
{
    struct json_members members;
    struct json_member m;
    struct params p = {0};
    enum param_id id;
    double v;
    int rc = json_members_open(&members, object, NULL);
    while (rc == ERR_OK && (rc = json_members_next(&members, &m, NULL)) == ERR_OK) {
        if (!param_find(m.key, &id) || !plain_real(m.value, &v))
            return false;
        rc = params_put(&p, id, v, NULL);
    }
    if (rc != ERR_NOT_FOUND)
        return false;
    *out = p;
    return true;
}

int param_set_decode(const struct json_at *at, struct arena *a, struct param_set *out,
                     struct err *e)
{
    *out = (struct param_set){0};
    int rc = decode(at, true, a, &out->defaults, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at caps = json_field(at, "caps");
    if (!caps.v || json_is_null(caps.v))
        return ERR_OK;
    rc = params_decode(&caps, a, &out->caps, e);
    if (rc == ERR_OK && (out->caps.n_stop > 0 || out->caps.weights.n > 0))
        rc = err_set(e, ERR_INVALID, "caps: only numbers have a cap, not stop or weights");
    return rc;
}

static bool put_new(json_t *obj, const char *key, json_t *v)
{
    return json_object_set_new(obj, key, v) == 0; /* takes v, also when it is NULL */
}

static bool put_stop(json_t *obj, const struct params *p)
{
    json_t *list = json_array();
    bool is_good = true;
    for (uint32_t i = 0; i < p->n_stop && is_good; i++)
        is_good = json_array_append_new(list, json_str(p->stop[i])) == 0;
    return put_new(obj, "stop", list) && is_good;
}

json_t *params_encode(const struct params *p)
{
    json_t *obj = json_object();
    bool is_good = obj != NULL;
    for (int i = 0; i < PARAM_COUNT && is_good; i++) {
        enum param_id id = (enum param_id)i;
        const struct param_info *info = param_info(id);
        if (params_has(p, id))
            is_good =
                put_new(obj, info->name,
                        info->is_integer ? json_integer((json_int_t)p->v[i]) : json_num(p->v[i]));
    }
    if (is_good && p->n_stop > 0)
        is_good = put_stop(obj, p);
    if (is_good && p->weights.n > 0)
        is_good = put_new(obj, "weights", json_str(p->weights));
    if (!is_good) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

static void put_text(struct buf *out, struct str s)
{
    buf_put_char(out, '"');
    buf_put_json(out, s);
    buf_put_char(out, '"');
}

static void put_number(struct buf *out, bool is_integer, double v)
{
    if (is_integer)
        buf_put_i64(out, (int64_t)v);
    else if (isfinite(v))
        buf_put_real(out, v);
    else
        buf_put_c(out, "null");
}

void params_write(const struct params *p, struct buf *out)
{
    buf_put_char(out, '{');
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct param_info *info = param_info((enum param_id)i);
        if (!params_has(p, (enum param_id)i))
            continue;
        plain_put_key(out, info->name);
        put_number(out, info->is_integer, p->v[i]);
    }
    if (p->n_stop > 0)
        plain_put_key(out, "stop");
    for (uint32_t i = 0; i < p->n_stop; i++) {
        buf_put_char(out, i ? ',' : '[');
        put_text(out, p->stop[i]);
    }
    if (p->n_stop > 0)
        buf_put_char(out, ']');
    if (p->weights.n > 0) {
        plain_put_key(out, "weights");
        put_text(out, p->weights);
    }
    buf_put_char(out, '}');
}

json_t *param_set_encode(const struct param_set *s)
{
    json_t *obj = params_encode(&s->defaults);
    if (obj && s->caps.set != 0 && !put_new(obj, "caps", params_encode(&s->caps))) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

void param_set_hash(const struct param_set *s, char out[65])
{
    struct buf b;
    buf_init(&b, SET_MAX_BYTES);
    json_t *v = param_set_encode(s);
    if (v && json_write_canonical(v, &b, NULL) == ERR_OK)
        sha256_hex(buf_str(&b), out);
    else
        snprintf(out, SHA256_HEX, "%064d", 0); /* memory is out: equal to no real hash */
    json_decref(v);
    buf_free(&b);
}
