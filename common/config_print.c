/* What a configuration is, written out: the effective values as YAML, and the commented reference.
 *
 * Texts are printed in double quotes with JSON escapes, which YAML reads as the same text, so what
 * is printed loads again to the same values. */
#include "common/config.h"

#include "common/config_value.h"
#include "common/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INDENT = 2, COMMENT_WIDTH = 96 };

struct printer {
    struct buf *out;
    struct err *e;
    bool is_first_of_item; /* the next key stands behind "- " */
};

static void put_indent(struct printer *p, unsigned depth)
{
    if (p->is_first_of_item)
        depth -= 1;
    for (unsigned i = 0; i < depth * INDENT; i++)
        buf_put_char(p->out, ' ');
    if (p->is_first_of_item)
        buf_put_c(p->out, "- ");
    p->is_first_of_item = false;
}

static void put_quoted(struct buf *out, struct str s)
{
    buf_put_char(out, '"');
    buf_put_json(out, s);
    buf_put_char(out, '"');
}

static void put_real(struct buf *out, double v)
{
    char text[40];
    for (int precision = 6; precision <= 17; precision++) {
        double back = 0;
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (str_to_f64(str_from(text), &back, NULL) == ERR_OK && back == v)
            break;
    }
    buf_put_c(out, text);
}

static void put_text_list(struct buf *out, const struct cfg_text_list *list)
{
    buf_put_char(out, '[');
    for (uint32_t i = 0; i < list->n; i++) {
        if (i > 0)
            buf_put_c(out, ", ");
        put_quoted(out, list->item[i]);
    }
    buf_put_char(out, ']');
}

static void put_scalar(struct buf *out, const struct cfg_option *o, const void *field)
{
    if (o->type == CFG_BOOL)
        buf_put_c(out, *(const bool *)field ? "true" : "false");
    else if (o->type == CFG_INT)
        buf_printf(out, "%" PRId64, *(const int64_t *)field);
    else if (o->type == CFG_REAL)
        put_real(out, *(const double *)field);
    else if (o->type == CFG_ENUM)
        buf_put_c(out, o->choices[*(const int *)field]);
    else if (o->type == CFG_TEXT)
        put_quoted(out, *(const struct str *)field);
    else
        put_text_list(out, field);
}

static int put_map(struct printer *p, const struct cfg_table *t, const void *value, unsigned depth);

static int put_list(struct printer *p, const struct cfg_option *o, const struct cfg_list *list,
                    unsigned depth)
{
    int rc = ERR_OK;
    buf_put_c(p->out, list->n ? "\n" : " []\n");
    for (uint32_t i = 0; i < list->n && rc == ERR_OK; i++) {
        p->is_first_of_item = true;
        rc = put_map(p, o->sub, (const char *)list->item + i * o->sub->size, depth + 2);
    }
    return rc;
}

/* Free-form keys: JSON is YAML's flow style, so each value is printed as it is kept. */
static int put_extra(struct printer *p, struct str text, unsigned depth)
{
    json_t *v = NULL, *item;
    const char *key;
    int rc = json_parse(text, 0, &v, p->e);
    if (rc != ERR_OK)
        return rc;
    json_object_foreach(v, key, item)
    {
        put_indent(p, depth);
        put_quoted(p->out, str_from(key));
        buf_put_c(p->out, ": ");
        if (rc == ERR_OK)
            rc = json_write(item, p->out, p->e);
        buf_put_char(p->out, '\n');
    }
    json_decref(v);
    return rc;
}

static bool is_empty_map(const struct cfg_table *t, const void *value)
{
    if (t->n_option > 0)
        return false;
    return !t->extra_offset ||
           str_eq_c(*(const struct str *)((const char *)value + t->extra_offset), "{}");
}

static int put_map(struct printer *p, const struct cfg_table *t, const void *value, unsigned depth)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; i < t->n_option && rc == ERR_OK; i++) {
        const struct cfg_option *o = &t->option[i];
        const void *field = (const char *)value + o->offset;
        put_indent(p, depth);
        buf_printf(p->out, "%s:", o->key);
        if (o->type == CFG_LIST) {
            rc = put_list(p, o, field, depth);
        } else if (o->type == CFG_MAP) {
            buf_put_c(p->out, is_empty_map(o->sub, field) ? " {}\n" : "\n");
            rc = put_map(p, o->sub, field, depth + 1);
        } else {
            buf_put_char(p->out, ' ');
            put_scalar(p->out, o, field);
            buf_put_char(p->out, '\n');
        }
    }
    if (rc == ERR_OK && t->extra_offset)
        rc = put_extra(p, *(const struct str *)((const char *)value + t->extra_offset), depth);
    return rc;
}

int cfg_print(const struct cfg_table *table, const void *value, struct buf *out, struct err *e)
{
    struct printer p = {.out = out, .e = e};
    int rc = put_map(&p, table, value, 0);
    return rc == ERR_OK ? buf_check(out, "configuration text", e) : rc;
}

/* Reference. */

static void put_start(struct buf *out, unsigned depth, const char *lead)
{
    for (unsigned i = 0; i < depth * INDENT; i++)
        buf_put_char(out, ' ');
    buf_put_c(out, lead);
}

/* The sentence, wrapped at COMMENT_WIDTH columns. */
static void put_comment(struct buf *out, const char *text, unsigned depth)
{
    size_t width = COMMENT_WIDTH - depth * INDENT - 2;
    struct str rest = str_from(text);
    while (rest.n > 0) {
        size_t n = rest.n;
        if (n > width) {
            n = width;
            while (n > 1 && rest.p[n] != ' ')
                n--;
        }
        put_start(out, depth, "# ");
        buf_put_str(out, str_slice(rest, 0, n));
        buf_put_char(out, '\n');
        rest = str_trim(str_slice(rest, n, rest.n));
    }
}

static void describe_option(const struct cfg_option *o, struct buf *line)
{
    char want[120];
    buf_put_c(line, o->help ? o->help : "");
    if (o->type == CFG_MAP || o->type == CFG_LIST)
        return;
    buf_printf(line, " (%s%s%s", cfg_describe(o, want, sizeof want),
               o->unit && *o->unit ? ", " : "", o->unit ? o->unit : "");
    if (!o->fallback)
        buf_put_c(line, "; required)");
    else
        buf_printf(line, "; default %s)", *o->fallback ? o->fallback : "\"\"");
}

static void put_default(struct buf *out, const struct cfg_option *o)
{
    if (o->type == CFG_TEXT_LIST)
        buf_printf(out, " [%s]\n", o->fallback ? o->fallback : "");
    else if (o->type == CFG_TEXT)
        buf_printf(out, " \"%s\"\n", o->fallback ? o->fallback : "");
    else
        buf_printf(out, " %s\n", o->fallback ? o->fallback : "");
}

static void put_reference(struct buf *out, const struct cfg_table *t, unsigned depth,
                          bool is_list_item)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        struct buf line;
        buf_init(&line, 4 * KiB);
        describe_option(o, &line);
        buf_put_char(&line, '\0');
        if (depth == 0 && i > 0)
            buf_put_char(out, '\n');
        if (!line.failed)
            put_comment(out, line.p, depth);
        buf_free(&line);
        put_start(out, is_list_item && i == 0 ? depth - 1 : depth,
                  is_list_item && i == 0 ? "- " : "");
        buf_printf(out, "%s:", o->key);
        if (o->type == CFG_MAP || o->type == CFG_LIST) {
            bool is_list = o->type == CFG_LIST;
            buf_put_c(out, o->sub->n_option ? "\n" : " {}\n");
            put_reference(out, o->sub, depth + (is_list ? 2 : 1), is_list);
        } else {
            put_default(out, o);
        }
    }
    if (t->extra_offset)
        put_comment(out, "... and the keys of its kind", depth);
}

void cfg_reference(const struct cfg_table *table, struct buf *out)
{
    put_reference(out, table, 0, false);
}
