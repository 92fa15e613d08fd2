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

const char *cli_route_query(struct cli *c, const char *route)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = strlen(route);
    char *out = arena_alloc(&c->arena, 3 * n + 1), *at = out;

    for (size_t i = 0; out != NULL && i <= n; i++) {
        unsigned char b = (unsigned char)route[i];
        bool is_plain = (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') ||
                        (b >= 'A' && b <= 'Z') || (b != '\0' && strchr("-._~", b) != NULL);
        if (is_plain || b == '\0') {
            *at++ = (char)b;
            continue;
        }
        *at++ = '%';
        *at++ = hex[b >> 4];
        *at++ = hex[b & 15];
    }
    return out != NULL ? out : "";
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
    /* An empty body would be another command: on the first route, back to the last revision. */
    if (body == NULL)
        TRY(err_set(e, ERR_INVALID, "a text on the command line is not valid UTF-8"));
    TRY(json_write(body, &text, e));
    TRY(call_api(c, path, buf_str(&text), out, e));
out:
    buf_free(&text);
    return rc;
}
