/* Blocking requests on one easy handle, whose connections are kept between calls. */
#include "common/http_transfer.h"

#include <stdlib.h>
#include <strings.h>

struct http_client {
    CURL *curl;
};

int http_client_open(struct http_client **out, struct err *e)
{
    *out = NULL;
    /* Reference-counted and thread-safe since 7.84; the process never needs the clean-up. */
    struct http_client *c = calloc(1, sizeof *c);
    if (c && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        c->curl = curl_easy_init();
    if (!c || !c->curl) {
        free(c);
        return err_set(e, ERR_NOMEM, "HTTP client");
    }
    *out = c;
    return ERR_OK;
}

void http_client_close(struct http_client *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    free(c);
}

int http_client_call(struct http_client *c, const struct http_call *call, struct http_result *r,
                     struct err *e)
{
    struct http_transfer t;
    http_transfer_begin(&t, c->curl, call, r);
    return http_transfer_end(&t, c->curl, curl_easy_perform(c->curl), e);
}

void http_result_free(struct http_result *r)
{
    buf_free(&r->body);
    buf_free(&r->headers);
}

struct str http_result_header(const struct http_result *r, const char *name)
{
    struct str rest = buf_str(&r->headers), line, wanted = str_from(name);
    while (str_split(&rest, '\n', &line)) {
        if (line.n > wanted.n && line.p[wanted.n] == ':' &&
            strncasecmp(line.p, wanted.p, wanted.n) == 0)
            return str_trim(str_slice(line, wanted.n + 1, line.n));
    }
    return (struct str){NULL, 0};
}
