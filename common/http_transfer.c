/* One request on an easy handle: options, headers, where the answer goes, what an error means.
 * Redirects are not followed, only http and https are spoken, every size and time has a limit. */
#include "common/http_transfer.h"

enum { CONNECT_MS = 2000, TIMEOUT_MS = 30000, MAX_HEADERS = 64 * 1024 };

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct http_transfer *t = ctx;
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
    struct http_transfer *t = ctx;
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

static void set_options(CURL *c, struct http_transfer *t)
{
    const struct http_call *call = t->call;
    curl_easy_setopt(c, CURLOPT_URL, call->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(call->connect_timeout_ms ? call->connect_timeout_ms : CONNECT_MS));
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS,
                     (long)(call->timeout_ms ? call->timeout_ms : TIMEOUT_MS));
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
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

static int translate(CURLcode code, const struct http_transfer *t, struct err *e)
{
    const char *url = t->call->url;
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

void http_transfer_begin(struct http_transfer *t, CURL *c, const struct http_call *call,
                         struct http_result *r)
{
    *r = (struct http_result){0};
    buf_init(&r->body, call->max_response_bytes ? call->max_response_bytes : 16 * MiB);
    buf_init(&r->headers, MAX_HEADERS);
    *t = (struct http_transfer){.call = call, .result = r, .headers = make_headers(call)};
    curl_easy_reset(c);
    set_options(c, t);
}

int http_transfer_end(struct http_transfer *t, CURL *c, CURLcode code, struct err *e)
{
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    t->result->status = (int)status;
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    int rc = translate(code, t, e);
    if (rc != ERR_OK)
        http_result_free(t->result);
    return rc;
}
