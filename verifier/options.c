/* Reads a check's parameters by table, so that every kind refuses the same mistakes in the same
 * words. Start-up only. */
#include "verifier/options.h"

#include <string.h>

static void list_keys(const struct option *option, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%s", i ? ", " : "", option[i].key);
    if (n == 0)
        buf_put_c(out, "none");
}

int options_refuse_unknown(const struct option *option, size_t n, const struct json_at *params,
                           struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)params->v, key, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < n && !is_known; i++)
            is_known = strcmp(option[i].key, key) == 0;
        if (is_known)
            continue;
        char path[96];
        json_path(params, path, sizeof path);
        struct buf known;
        buf_init(&known, 4 * KiB);
        list_keys(option, n, &known);
        int rc = err_set(e, ERR_INVALID, "%s: unknown key '%.40s'; known here: " STR_FMT, path, key,
                         STR_ARG(buf_str(&known)));
        buf_free(&known);
        return rc;
    }
    return ERR_OK;
}

static int read_bool(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                     struct err *e)
{
    (void)o, (void)a;
    return json_get_bool(at, to, e);
}

static int read_int(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                    struct err *e)
{
    (void)a;
    return json_get_i64(at, (int64_t)o->min, (int64_t)o->max, to, e);
}

static int read_real(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                     struct err *e)
{
    (void)a;
    return json_get_f64(at, o->min, o->max, to, e);
}

static int read_text(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                     struct err *e)
{
    (void)o, (void)a;
    return json_get_str(at, to, e);
}

static int read_enum(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                     struct err *e)
{
    (void)a;
    struct str text;
    int rc = json_get_str(at, &text, e);
    if (rc != ERR_OK)
        return rc;
    struct buf allowed;
    buf_init(&allowed, KiB);
    for (int i = 0; o->choices[i]; i++) {
        if (str_eq_c(text, o->choices[i])) {
            *(int *)to = i;
            buf_free(&allowed);
            return ERR_OK;
        }
        buf_printf(&allowed, "%s%s", i ? ", " : "", o->choices[i]);
    }
    char path[96];
    json_path(at, path, sizeof path);
    rc = err_set(e, ERR_INVALID, "%s: found '%.40s', allowed: " STR_FMT, path, text.n ? text.p : "",
                 STR_ARG(buf_str(&allowed)));
    buf_free(&allowed);
    return rc;
}

static int read_texts(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                      struct err *e)
{
    (void)o;
    struct cfg_text_list *list = to;
    size_t n = 1;
    bool is_list = json_is_array(at->v);
    int rc = is_list ? json_get_array(at, OPTION_MAX_TEXTS, &n, e) : ERR_OK;
    if (rc != ERR_OK)
        return rc;
    list->item = arena_array(a, n ? n : 1, sizeof *list->item);
    if (!list->item)
        return err_set(e, ERR_NOMEM, "no memory for a list of %zu texts", n);
    for (size_t i = 0; i < n; i++) {
        struct json_at item = is_list ? json_item(at, i) : *at;
        rc = json_get_str(&item, &list->item[i], e);
        if (rc != ERR_OK)
            return rc;
    }
    list->n = (uint32_t)n;
    return ERR_OK;
}

static int read_json(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                     struct err *e)
{
    (void)o, (void)a;
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        *(const json_t **)to = at->v;
    return rc;
}

static int read_any(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                    struct err *e)
{
    (void)o, (void)a, (void)e;
    *(const json_t **)to = json_is_null(at->v) ? NULL : at->v;
    return ERR_OK;
}

typedef int read_fn(const struct option *o, const struct json_at *at, struct arena *a, void *to,
                    struct err *e);
static read_fn *const READ[] = {
    [OPTION_BOOL] = read_bool, [OPTION_INT] = read_int,   [OPTION_REAL] = read_real,
    [OPTION_TEXT] = read_text, [OPTION_ENUM] = read_enum, [OPTION_TEXTS] = read_texts,
    [OPTION_JSON] = read_json, [OPTION_ANY] = read_any,
};

int options_read(const struct option *option, size_t n, const struct json_at *params,
                 struct arena *a, void *out, struct err *e)
{
    int rc = json_get_object(params, e);
    if (rc == ERR_OK)
        rc = options_refuse_unknown(option, n, params, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at at = json_field(params, option[i].key);
        if (at.v)
            rc = READ[option[i].type](&option[i], &at, a, (char *)out + option[i].offset, e);
    }
    return rc;
}
