/* verifier/http.h - GET /health and GET /metrics of the verifier, on a thread of its own. */
#ifndef VERIFIER_HTTP_H
#define VERIFIER_HTTP_H

#include "common/metrics.h"
#include "common/str.h"

struct verifier_http;

/* host is NUL-terminated. ERR_IO names a busy port and what to do. metrics is borrowed until close.
 */
MUST_USE int verifier_http_open(struct verifier_http **out, const char *host, uint16_t port,
                                struct metrics *metrics, struct err *e);
void verifier_http_close(struct verifier_http *h); /* NULL is fine; waits for the thread */

#endif
