/* json_schema: the output (or the JSON value inside it) holds against a JSON Schema of draft
 * 2020-12, from the parameters or from the request's metadata. verifier/schema bounds the work. */
#include "verifier/check.h"
#include "verifier/schema/schema.h"
#include "verifier/text/json_find.h"

#include <stdlib.h>

struct json_schema {
    const json_t *given; /* of the parameters */
    int mode, format, unknown;
    struct str field; /* of the metadata; empty = none */
    struct buf text;
    struct schema *schema; /* compiled; NULL when the metadata has it */
};

enum { MODE_STRICT, MODE_EMBEDDED };
static const char *const MODES[] = {"strict", "embedded", NULL};
static const char *const FORMATS[] = {"annotate", "assert", NULL};
static const char *const UNKNOWN[] = {"refuse", "ignore", NULL};
#define AT(field) offsetof(struct json_schema, field)
static const struct option OPTIONS[] = {
    {"schema", OPTION_ANY, AT(given), 0, 0, NULL, "the schema, or its text"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field with the schema"},
    {"mode", OPTION_ENUM, AT(mode), 0, 0, MODES, "whole output, or the value inside it"},
    {"format", OPTION_ENUM, AT(format), 0, 0, FORMATS, "what the keyword format does"},
    {"unknown_keywords", OPTION_ENUM, AT(unknown), 0, 0, UNKNOWN, "what else a schema may hold"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void json_schema_close(void *state)
{
    struct json_schema *c = state;
    if (!c)
        return;
    schema_close(c->schema);
    buf_free(&c->text);
    free(c);
}

/* A schema in a text is read as it stands; numbers of a JSON value went through a double. */
static int schema_text(const json_t *v, struct buf *out, struct err *e)
{
    if (json_is_string(v)) {
        buf_put(out, json_string_value(v), json_string_length(v));
        return buf_check(out, "schema", e);
    }
    if (!json_is_object(v) && !json_is_boolean(v))
        return err_set(e, ERR_INVALID, "schema: found %s, allowed: an object, true, false, a text",
                       json_type_name(v));
    return json_write(v, out, e);
}

static int open_schema(const struct json_schema *c, const json_t *v, struct buf *text,
                       struct schema **out, struct err *e)
{
    struct schema_options options = {.asserts_format = c->format == 1,
                                     .ignores_unknown = c->unknown == 1};
    int rc = schema_text(v, text, e);
    return rc == ERR_OK ? schema_open(out, buf_str(text), options, e) : rc;
}

static int json_schema_open(void **state, const struct json_at *params, struct err *e)
{
    struct json_schema *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    buf_init(&c->text, SCHEMA_MAX_BYTES);
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, c, e);
    if (rc == ERR_OK && (c->given != NULL) == (c->field.n > 0))
        rc = err_set(e, ERR_INVALID, "schema: found %s field, allowed: one of schema and field",
                     c->given ? "schema and" : "neither schema nor");
    if (rc == ERR_OK && c->given)
        rc = open_schema(c, c->given, &c->text, &c->schema, e);
    if (rc != ERR_OK) {
        json_schema_close(c);
        return rc == ERR_UNSUPPORTED ? ERR_INVALID : rc;
    }
    *state = c;
    return ERR_OK;
}

static struct check_verdict run_with(const struct json_schema *c, const struct schema *schema,
                                     const struct check_item *item)
{
    struct str value = item->output->text;
    const char *why;
    if (value.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    if (c->mode == MODE_EMBEDDED && !json_find(value, JSON_WANT_ANY, &value, &why))
        return check_pass_if(false, why);
    return schema_check(schema, value, item);
}

static struct check_verdict json_schema_run(const void *state, const struct check_item *item)
{
    const struct json_schema *c = state;
    if (c->schema)
        return run_with(c, c->schema, item);
    const json_t *v = check_metadata(item, c->field.p);
    struct schema *schema = NULL;
    struct buf text;
    if (!v)
        return check_unscored("no_reference");
    buf_init(&text, SCHEMA_MAX_BYTES);
    struct check_verdict verdict = check_unscored("invalid_schema");
    if (open_schema(c, v, &text, &schema, NULL) == ERR_OK)
        verdict = run_with(c, schema, item);
    schema_close(schema);
    buf_free(&text);
    return verdict;
}

const struct check_ops CHECK_JSON_SCHEMA = {
    .kind = "json_schema",
    .code_version = 3,
    .summary = "JSON that holds against a JSON Schema (draft 2020-12)",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = json_schema_open,
    .run = json_schema_run,
    .close = json_schema_close,
};
