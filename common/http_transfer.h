/* common/http_transfer.h - shared by http_client.c and http_multi.c only: the files that know
 * libcurl.
 */
#ifndef COMMON_HTTP_TRANSFER_H
#define COMMON_HTTP_TRANSFER_H

#include "common/http_client.h"

#include <curl/curl.h>

struct http_transfer {
    const struct http_call *call; /* borrowed until the end */
    struct http_result *result;
    struct curl_slist *headers;
    bool refused; /* on_data said stop */
};

/* Sets every option of the handle. */
void http_transfer_begin(struct http_transfer *t, CURL *c, const struct http_call *call,
                         struct http_result *r);
/* After the handle is done with it: the status, or the error that code means (result freed). */
MUST_USE int http_transfer_end(struct http_transfer *t, CURL *c, CURLcode code, struct err *e);

#endif
