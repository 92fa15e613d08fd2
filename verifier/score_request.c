/* JSON of a trainer to outputs as an engine would send them. */
#include "verifier/score_request.h"

#include "common/json.h"

enum { MAX_MESSAGES = 4096 };

static int copy(struct arena *a, struct str *s, struct err *e)
{
    *s = arena_str(a, *s);
    return s->p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a request");
}

static int read_messages(const struct json_at *at, struct arena *a, struct output *o, struct err *e)
{
    size_t n;
    int rc = json_get_array(at, MAX_MESSAGES, &n, e);
    struct output_message *m = rc == ERR_OK ? arena_array(a, n + 1, sizeof *m) : NULL;
    if (rc == ERR_OK && !m)
        rc = err_set(e, ERR_NOMEM, "no memory for a request");
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(at, i);
        m[i] = (struct output_message){STR("user"), STR("")};
        rc = json_get_object(&item, e);
        if (rc == ERR_OK)
            rc = json_opt_str(&item, "role", &m[i].role, e);
        if (rc == ERR_OK)
            rc = json_opt_str(&item, "content", &m[i].content, e);
        if (rc == ERR_OK)
            rc = copy(a, &m[i].role, e);
        if (rc == ERR_OK)
            rc = copy(a, &m[i].content, e);
    }
    if (rc == ERR_OK) {
        o->messages = m;
        o->n_messages = (uint32_t)n;
    }
    return rc;
}

static int read_prompt(const struct json_at *root, struct arena *a, struct output *o, struct err *e)
{
    struct json_at prompt = json_field(root, "prompt");
    if (json_is_array(prompt.v) && json_array_size(prompt.v) > 0)
        return read_messages(&prompt, a, o, e);
    if (json_is_array(prompt.v))
        return ERR_OK;
    int rc = json_opt_str(root, "prompt", &o->prompt, e);
    return rc == ERR_OK ? copy(a, &o->prompt, e) : rc;
}

static int read_metadata(const struct json_at *root, struct arena *a, struct output *o,
                         struct err *e)
{
    struct json_at given = json_field(root, "metadata");
    const json_t *label = json_object_get(root->v, "label");
    struct buf text;
    int rc = ERR_OK;
    if (given.v && !json_is_null(given.v))
        rc = json_get_object(&given, e);
    if (rc != ERR_OK)
        return rc;
    json_t *all = json_is_object(given.v) ? json_copy((json_t *)given.v) : json_object();
    if (label && !json_is_null(label))
        json_object_set(all, "reference", (json_t *)label);
    buf_init(&text, OUTPUT_MAX_BYTES);
    rc = json_write(all, &text, e);
    o->metadata = buf_str(&text);
    if (rc == ERR_OK)
        rc = copy(a, &o->metadata, e);
    buf_free(&text);
    json_decref(all);
    return rc;
}

static int read_item(const struct json_at *root, struct arena *a, struct output *o, struct err *e)
{
    struct json_at response = json_field(root, "response");
    int rc = json_get_object(root, e);
    *o = (struct output){.prompt = STR(""), .finish_reason = STR("stop")};
    if (rc == ERR_OK)
        rc = json_get_str(&response, &o->text, e);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(e, ERR_INVALID, "response: missing, allowed: the text to score");
    if (rc == ERR_OK)
        rc = copy(a, &o->text, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "finish_reason", &o->finish_reason, e);
    if (rc == ERR_OK)
        rc = copy(a, &o->finish_reason, e);
    if (rc == ERR_OK)
        rc = read_prompt(root, a, o, e);
    return rc == ERR_OK ? read_metadata(root, a, o, e) : rc;
}

int score_request_parse(struct str body, struct arena *a, struct score_request *out, struct err *e)
{
    json_t *doc = NULL;
    *out = (struct score_request){.n = 1};
    int rc = json_parse(body, JSON_ANY_VALUE, &doc, e);
    struct json_at root = json_root(doc);
    if (rc == ERR_OK && json_is_array(doc)) {
        out->is_batch = true;
        rc = json_get_array(&root, SCORE_REQUEST_MAX_ITEMS, &out->n, e);
    }
    if (rc == ERR_OK) {
        out->output = arena_array(a, out->n + 1, sizeof *out->output);
        rc = out->output ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a request");
    }
    for (size_t i = 0; i < out->n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&root, i);
        rc = read_item(out->is_batch ? &item : &root, a, &out->output[i], e);
    }
    json_decref(doc);
    return rc;
}
