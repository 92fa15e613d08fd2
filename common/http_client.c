/* Blocking requests on one easy handle, whose connections are kept between calls. Redirects are not
 * followed, only http and https are spoken, every size and time has a limit. */
#include "common/http_client.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <strings.h>

enum { CONNECT_MS = 2000, TIMEOUT_MS = 30000, MAX_HEADERS = 64 * 1024 };

struct http_client {
    CURL *curl;
};

struct transfer {
    const struct http_call *call;
    struct http_result *result;
    bool refused; /* on_data said stop */
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

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    struct str piece = {p, size * n};
    if (t->call->on_data) {
        t->refused = !t->call->on_data(t->call->ctx, piece);
        return t->refused ? 0 : piece.n;
    }
    buf_put_str(&t->result->body, piece);
    return t->result->body.failed ? 0 : piece.n;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    buf_put(&t->result->headers, p, size * n);
    return t->result->headers.failed ? 0 : size * n;
}

static struct curl_slist *make_headers(const struct http_call *call)
{
    struct curl_slist *list = NULL;
    if (call->body.n)
        list = curl_slist_append(list, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:"); /* no wait for 100-continue */
    for (const char *const *h = call->headers; h && *h; h++)
        list = curl_slist_append(list, *h);
    return list;
}

static void set_options(CURL *c, const struct http_call *call, struct transfer *t,
                        struct curl_slist *headers)
{
    curl_easy_setopt(c, CURLOPT_URL, call->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(call->connect_timeout_ms ? call->connect_timeout_ms : CONNECT_MS));
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS,
                     (long)(call->timeout_ms ? call->timeout_ms : TIMEOUT_MS));
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    if (call->body.n) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, call->body.p);
    }
    if (call->method)
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, call->method);
}

static int translate(CURLcode code, const struct transfer *t, const char *url, struct err *e)
{
    if (code == CURLE_OK)
        return ERR_OK;
    if (t->refused)
        return err_set(e, ERR_CANCELLED, "%s: stopped by the caller", url);
    if (t->result->body.failed || t->result->headers.failed)
        return err_set(e, ERR_NOMEM, "%s: the answer is larger than %zu bytes", url,
                       t->result->body.max_bytes);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return err_set(e, ERR_TIMEOUT, "%s: no answer in time", url);
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
        return err_set(e, ERR_INVALID, "'%s' is not an http or https address", url);
    return err_set(e, ERR_IO, "%s: %s", url, curl_easy_strerror(code));
}

int http_client_call(struct http_client *c, const struct http_call *call, struct http_result *r,
                     struct err *e)
{
    *r = (struct http_result){0};
    buf_init(&r->body, call->max_response_bytes ? call->max_response_bytes : 16 * MiB);
    buf_init(&r->headers, MAX_HEADERS);
    struct transfer t = {.call = call, .result = r};
    struct curl_slist *headers = make_headers(call);
    curl_easy_reset(c->curl);
    set_options(c->curl, call, &t, headers);
    CURLcode code = curl_easy_perform(c->curl);
    long status = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    r->status = (int)status;
    curl_slist_free_all(headers);
    int rc = translate(code, &t, call->url, e);
    if (rc != ERR_OK)
        http_result_free(r);
    return rc;
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
