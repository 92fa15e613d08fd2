/* verifier/http.h - GET /health, GET /metrics and POST /score of the verifier, on a thread of its
 * own.
 */
#ifndef VERIFIER_HTTP_H
#define VERIFIER_HTTP_H

#include "common/metrics.h"
#include "verifier/crew.h"

struct verifier_http;

/* host is NUL-terminated. key: what POST /score asks for, empty = nothing. ERR_IO names a busy port
 * and what to do. metrics, and what crew points to, are borrowed until close. */
MUST_USE int verifier_http_open(struct verifier_http **out, const char *host, uint16_t port,
                                struct str key, struct metrics *metrics,
                                const struct crew_config *crew, struct err *e);
/* Answers what it can of POST /score within grace_ms. NULL is fine; waits for the threads. */
void verifier_http_close(struct verifier_http *h, uint32_t grace_ms);

#endif
