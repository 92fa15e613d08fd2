/* Errors in OpenAI's shape: {"error":{"message","type","param","code"}}. The parameter at fault is
 * the path that a parser put in front of its message. */
#include "common/rng.h"
#include "engine/api/job.h"

#include <string.h>

static const struct {
    int status;
    const char *type, *code;
} TYPES[] = {
    {400, "invalid_request_error", NULL},
    {401, "authentication_error", "invalid_api_key"},
    {404, "invalid_request_error", "not_found"},
    {405, "invalid_request_error", "method_not_allowed"},
    {413, "invalid_request_error", "body_too_large"},
    {503, "server_overloaded", "overloaded"},
    {500, "server_error", NULL}, /* and every other status */
};
enum { TYPES_N = sizeof TYPES / sizeof *TYPES };

static size_t find_type(int status)
{
    size_t i = 0;
    while (i + 1 < TYPES_N && TYPES[i].status != status)
        i++;
    return i;
}

static void put_text_or_null(struct buf *out, struct str s)
{
    if (s.n == 0) {
        buf_put_c(out, "null");
        return;
    }
    buf_put_char(out, '"');
    buf_put_json(out, s);
    buf_put_char(out, '"');
}

void api_put_error(struct buf *out, int status, struct str message, struct str param,
                   const char *code)
{
    size_t i = find_type(status);
    buf_put_c(out, "{\"error\":{\"message\":\"");
    buf_put_json(out, message);
    buf_printf(out, "\",\"type\":\"%s\",\"param\":", TYPES[i].type);
    put_text_or_null(out, param);
    buf_put_c(out, ",\"code\":");
    put_text_or_null(out, str_from(code ? code : TYPES[i].code));
    buf_put_c(out, "}}");
}

void api_error_body(int status, const char *message, struct buf *out)
{
    api_put_error(out, status, str_from(message), STR(""), NULL);
}

/* "$.messages[1].content: must be ..." -> "messages[1].content". */
static struct str param_of(struct str message)
{
    ptrdiff_t end = str_find(message, STR(": "), 0);
    if (!str_starts(message, STR("$.")) || end < 0)
        return STR("");
    return str_slice(message, 2, (size_t)end);
}

void api_reply_error(struct http_request *r, int status, const struct err *e, const char *code)
{
    struct str message = str_from(e->msg);
    struct buf body;
    buf_init(&body, 16 * KiB);
    api_put_error(&body, status, message, param_of(message), code);
    if (status == 503)
        http_reply_header(r, "Retry-After", STR("1"));
    if (status == 401)
        http_reply_header(r, "WWW-Authenticate", STR("Bearer"));
    http_reply(r, status, "application/json", buf_str(&body));
    buf_free(&body);
}

static bool is_sane_id(struct str id)
{
    static const char ALLOWED[] = "-_.:";
    if (id.n == 0 || id.n > 128)
        return false;
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_word && !memchr(ALLOWED, c, sizeof ALLOWED - 1))
            return false;
    }
    return true;
}

/* Milliseconds first, as in UUID version 7 (RFC 9562 section 5.7): whoever keeps an index over ids
 * appends to it. */
struct str api_request_id(const char *prefix, struct arena *a)
{
    return arena_printf(a, "%s-%012llx%012llx", prefix,
                        (unsigned long long)clock_wall(&CLOCK_REAL).us / 1000,
                        (unsigned long long)(rng_entropy() >> 16));
}

void api_put_request_id(struct http_request *r, struct str id)
{
    struct str given = http_request_header(r, "X-Request-Id");
    http_reply_header(r, "X-Request-Id", is_sane_id(given) ? given : id);
}

bool api_has_key(const struct api *a, struct http_request *r)
{
    return http_request_has_key(r, a->config.api_key);
}

void api_reply_no_key(struct http_request *r)
{
    struct err e;
    err_set(&e, ERR_INVALID, "the API key is missing or wrong: send Authorization: Bearer KEY");
    api_reply_error(r, 401, &e, NULL);
}
