/* common/http_multi.h - many HTTP requests at once on one thread, on libcurl's multi interface.
 *
 * Everything but http_multi_wake belongs to the thread that polls. Connections are kept alive and
 * shared. Deadlines and sizes as in http_client.h. */
#ifndef COMMON_HTTP_MULTI_H
#define COMMON_HTTP_MULTI_H

#include "common/http_client.h"

#include <poll.h>

struct http_multi;

/* rc and e as of http_client_call; r is valid during the call only. */
typedef void http_done_fn(void *ctx, int rc, const struct http_result *r, const struct err *e);

MUST_USE int http_multi_open(struct http_multi **out, struct err *e);
/* What still runs is done with ERR_CANCELLED. */
void http_multi_close(struct http_multi *m);
/* done runs once, from http_multi_poll or _close; until then the texts of the call are borrowed
 * (the struct itself is copied). ERR_NOMEM: done does not run. */
MUST_USE int http_multi_start(struct http_multi *m, const struct http_call *call,
                              http_done_fn *done, void *ctx, struct err *e);
/* Waits up to timeout_ms for an answer, one of fds, or a wake-up; runs what is done. */
void http_multi_poll(struct http_multi *m, const struct pollfd *fds, uint32_t n, int timeout_ms);
void http_multi_wake(struct http_multi *m); /* any thread */

#endif
