/* Text of one option to its value: type, range, choices, and the sentence that says what is
 * allowed.
 *
 * Defaults in the tables take the same way as values in a file, so a default outside its own range
 * fails at start instead of being served. */
#include "common/config_value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_TEXT_MAX = 4096, LIST_MAX = 64, SHOWN_MAX = 60 };

int cfg_refuse(const struct cfg_place *at, struct err *e, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (at->line > 0)
        return err_set(e, ERR_INVALID, "%s:%d: %s: %s", at->source, at->line, at->path, text);
    return err_set(e, ERR_INVALID, "%s: %s: %s", at->source, at->path, text);
}

static size_t longest_text(const struct cfg_option *o)
{
    return o->max > 0 ? (size_t)o->max : DEFAULT_TEXT_MAX;
}

static void describe_choices(const struct cfg_option *o, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "one of");
    for (size_t i = 0; o->choices[i] && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s %s", i ? "," : "", o->choices[i]);
}

const char *cfg_describe(const struct cfg_option *o, char *out, size_t cap)
{
    static const char *const fixed[] = {
        [CFG_BOOL] = "true or false",
        [CFG_TEXT_LIST] = "a list of texts",
        [CFG_MAP] = "a mapping",
        [CFG_LIST] = "a list",
        [CFG_INT] = NULL,
        [CFG_REAL] = NULL,
        [CFG_TEXT] = NULL,
        [CFG_ENUM] = NULL,
    };
    if (fixed[o->type])
        snprintf(out, cap, "%s", fixed[o->type]);
    else if (o->type == CFG_INT)
        snprintf(out, cap, "an integer from %.0f to %.0f", o->min, o->max);
    else if (o->type == CFG_REAL)
        snprintf(out, cap, "a number from %g to %g", o->min, o->max);
    else if (o->type == CFG_TEXT && o->max <= 0)
        snprintf(out, cap, "text");
    else if (o->type == CFG_TEXT)
        snprintf(out, cap, "text of at most %zu bytes", longest_text(o));
    else
        describe_choices(o, out, cap);
    return out;
}

static int refuse_value(const struct cfg_option *o, const struct cfg_node *n,
                        const struct cfg_place *at, struct err *e)
{
    char want[120];
    cfg_describe(o, want, sizeof want);
    static const char *const containers[] = {
        [CFG_NODE_SCALAR] = "", [CFG_NODE_MAP] = "a mapping", [CFG_NODE_LIST] = "a list"};
    if (n->type != CFG_NODE_SCALAR)
        return cfg_refuse(at, e, "must be %s, got %s", want, containers[n->type]);
    if (o->type == CFG_TEXT && n->text.n > longest_text(o))
        return cfg_refuse(at, e, "text of %zu bytes; at most %zu are allowed", n->text.n,
                          longest_text(o));
    int shown = n->text.n > SHOWN_MAX ? SHOWN_MAX : (int)n->text.n;
    return cfg_refuse(at, e, "must be %s, got \"%.*s\"", want, shown, n->text.p);
}

/* Parsers of a scalar; false = not this type or out of range. */

static bool parse_bool(const struct cfg_option *o, struct str s, void *field)
{
    (void)o;
    *(bool *)field = str_eq_c(s, "true");
    return str_eq_c(s, "true") || str_eq_c(s, "false");
}

static bool parse_int(const struct cfg_option *o, struct str s, void *field)
{
    int64_t v = 0;
    if (str_to_i64(s, &v, NULL) != ERR_OK || (double)v < o->min || (double)v > o->max)
        return false;
    *(int64_t *)field = v;
    return true;
}

static bool parse_real(const struct cfg_option *o, struct str s, void *field)
{
    double v = 0;
    if (str_to_f64(s, &v, NULL) != ERR_OK || !(v >= o->min && v <= o->max))
        return false;
    *(double *)field = v;
    return true;
}

static bool parse_enum(const struct cfg_option *o, struct str s, void *field)
{
    for (int i = 0; o->choices[i]; i++) {
        if (str_eq_c(s, o->choices[i])) {
            *(int *)field = i;
            return true;
        }
    }
    return false;
}

static bool parse_text(const struct cfg_option *o, struct str s, void *field)
{
    *(struct str *)field = s;
    return s.n <= longest_text(o) && !memchr(s.p, 0, s.n);
}

typedef bool parse_fn(const struct cfg_option *o, struct str s, void *field);

static int copy_item(struct cfg_text_list *list, struct str s, struct arena *a, struct err *e)
{
    list->item[list->n] = arena_str(a, s);
    if (!list->item[list->n].p)
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    list->n++;
    return ERR_OK;
}

static int split_text(struct cfg_text_list *list, struct str text, struct arena *a, struct err *e)
{
    struct str rest = text, piece;
    int rc = ERR_OK;
    while (text.n > 0 && rc == ERR_OK && list->n < LIST_MAX && str_split(&rest, ',', &piece))
        rc = copy_item(list, str_trim(piece), a, e);
    return rc;
}

/* A list, or one text with commas (defaults, --set). */
static int read_text_list(const struct cfg_option *o, const struct cfg_node *n,
                          const struct cfg_place *at, struct arena *a, void *field, struct err *e)
{
    struct cfg_text_list list = {.item = arena_array(a, LIST_MAX, sizeof *list.item)};
    int rc = list.item ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory for the configuration");
    if (rc != ERR_OK)
        return rc;
    if (n->n_child > LIST_MAX)
        return cfg_refuse(at, e, "at most %d items are allowed", LIST_MAX);
    if (n->type == CFG_NODE_MAP)
        return refuse_value(o, n, at, e);
    if (n->type == CFG_NODE_SCALAR)
        rc = split_text(&list, n->text, a, e);
    for (const struct cfg_node *c = n->child; c && rc == ERR_OK; c = c->next)
        rc = c->type == CFG_NODE_SCALAR ? copy_item(&list, c->text, a, e)
                                        : refuse_value(o, n, at, e);
    *(struct cfg_text_list *)field = list;
    return rc;
}

int cfg_read_scalar(const struct cfg_option *o, const struct cfg_node *n,
                    const struct cfg_place *at, struct arena *a, void *field, struct err *e)
{
    static parse_fn *const parsers[] = {
        [CFG_BOOL] = parse_bool, [CFG_INT] = parse_int,   [CFG_REAL] = parse_real,
        [CFG_ENUM] = parse_enum, [CFG_TEXT] = parse_text,
    };
    if (o->type == CFG_TEXT_LIST)
        return read_text_list(o, n, at, a, field, e);
    if (n->type != CFG_NODE_SCALAR || !parsers[o->type](o, n->text, field))
        return refuse_value(o, n, at, e);
    return ERR_OK;
}

int cfg_read_fallback(const struct cfg_option *o, struct arena *a, void *field, struct err *e)
{
    const struct cfg_node n = {
        .type = CFG_NODE_SCALAR, .text = str_from(o->fallback), .is_plain = true};
    const struct cfg_place at = {.source = "built-in default", .path = o->key};
    return o->fallback ? cfg_read_scalar(o, &n, &at, a, field, e) : ERR_OK;
}
