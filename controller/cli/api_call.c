/* Calls of the controller's HTTP API. One connection per command, kept alive.
 *
 * An error answer carries {"error":{"message"}}; its text reaches the person as it is, with the
 * address in front when the answer is not the controller's. */
#include "controller/cli/cli.h"

#include "common/http_client.h"

#include <string.h>

static const struct {
    int status;
    enum err_code code;
} STATUS_CODES[] = {{400, ERR_INVALID},   {401, ERR_INVALID},  {403, ERR_INVALID},
                    {404, ERR_NOT_FOUND}, {409, ERR_CONFLICT}, {503, ERR_BUSY}};

static int error_of(const struct http_result *r, const char *url, struct err *e)
{
    enum err_code code = ERR_IO;
    json_t *doc = NULL;
    const char *message = NULL;

    for (size_t i = 0; i < sizeof STATUS_CODES / sizeof STATUS_CODES[0]; i++)
        if (STATUS_CODES[i].status == r->status)
            code = STATUS_CODES[i].code;
    if (json_parse(buf_str(&r->body), 0, &doc, NULL) == ERR_OK)
        message = json_string_value(json_object_get(json_object_get(doc, "error"), "message"));
    int rc = message != NULL
                 ? err_set(e, code, "%s", message)
                 : err_set(e, code, "%s answered %d; is it a Milepost controller?", url, r->status);
    json_decref(doc);
    return rc;
}

static const char *bearer(struct cli *c, struct err *e)
{
    struct str key = {0};

    if (milepost_config_key(c->config.controller.admin_key_file, "MILEPOST_ADMIN_KEY", &c->arena,
                            &key, e) != ERR_OK)
        return NULL;
    if (key.n == 0)
        return "";
    return arena_printf(&c->arena, "Authorization: Bearer " STR_FMT, STR_ARG(key)).p;
}

static int send_call(struct cli *c, const char *url, struct str body, struct http_result *r,
                     struct err *e)
{
    const char *auth = bearer(c, e);
    const char *headers[] = {auth, NULL};
    struct http_call call = {.url = url, .body = body};

    if (auth == NULL)
        return ERR_INVALID;
    if (auth[0] != '\0')
        call.headers = headers;
    if (c->http == NULL && http_client_open(&c->http, e) != ERR_OK)
        return ERR_IO;
    int rc = http_client_call(c->http, &call, r, e);
    if (rc == ERR_IO)
        return err_wrap(e, "no controller answers at %s (start one with 'milepost up')",
                        cli_controller_url(c));
    return rc;
}

static int call_api(struct cli *c, const char *path, struct str body, json_t **out, struct err *e)
{
    struct http_result r = {0};
    struct str url = arena_printf(&c->arena, "%s%s", cli_controller_url(c), path);
    int rc = url.p != NULL ? send_call(c, url.p, body, &r, e) : err_set(e, ERR_NOMEM, "url");

    *out = NULL;
    if (rc == ERR_OK && r.status >= 400)
        rc = error_of(&r, url.p, e);
    else if (rc == ERR_OK && json_parse(buf_str(&r.body), 0, out, e) != ERR_OK)
        rc = err_wrap(e, "%s", url.p);
    http_result_free(&r);
    return rc;
}

int cli_get(struct cli *c, const char *path, json_t **out, struct err *e)
{
    return call_api(c, path, (struct str){0}, out, e);
}

int cli_post(struct cli *c, const char *path, json_t *body, json_t **out, struct err *e)
{
    struct buf text;
    int rc;

    buf_init(&text, MiB);
    TRY(body != NULL ? json_write(body, &text, e) : (buf_put_c(&text, "{}"), ERR_OK));
    TRY(call_api(c, path, buf_str(&text), out, e));
out:
    buf_free(&text);
    return rc;
}
