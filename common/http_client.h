/* common/http_client.h - blocking HTTP requests on libcurl.
 *
 * One client per thread; connections are kept alive inside it. Only http and https. Bounded by
 * deadlines and sizes. For many requests at once see http_multi.h. */
#ifndef COMMON_HTTP_CLIENT_H
#define COMMON_HTTP_CLIENT_H

#include "common/buf.h"

struct http_client;

struct http_call {
    const char *method; /* NULL: GET, or POST with a body */
    const char *url;
    struct str body;                         /* sent as application/json when not empty */
    const char *const *headers;              /* "Name: value", NULL-terminated; may be NULL */
    uint32_t connect_timeout_ms, timeout_ms; /* 0 = 2 s, 30 s */
    size_t max_response_bytes;               /* 0 = 16 MiB */
    /* When set, receives body pieces as they arrive; false aborts (ERR_CANCELLED). */
    bool (*on_data)(void *ctx, struct str piece);
    void *ctx;
};

struct http_result {
    int status;         /* HTTP status */
    struct buf body;    /* empty when on_data was given; free with http_result_free */
    struct buf headers; /* raw "Name: value\r\n" lines */
};

MUST_USE int http_client_open(struct http_client **out, struct err *e);
void http_client_close(struct http_client *c);
/* ERR_OK whatever the status. ERR_TIMEOUT, ERR_IO (refused, reset), ERR_NOMEM (too large). */
MUST_USE int http_client_call(struct http_client *c, const struct http_call *call,
                              struct http_result *r, struct err *e);
void http_result_free(struct http_result *r);
/* Value of a response header, p NULL when absent. Borrowed from r. */
struct str http_result_header(const struct http_result *r, const char *name);

#endif
