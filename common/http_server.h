/* common/http_server.h - HTTP/1.1 with streaming, on libevent's evhttp. The only file that knows
 * it.
 *
 * One loop thread runs everything here; other threads reach it through http_server_post or an fd
 * added with http_server_watch. Handlers must not block. A request stays valid until it was
 * answered (or its stream ended) AND its on_close, when set, ran or was cleared.
 * Rules behind it (each a measured trap of evhttp): the response starts at admission so that a
 * client that leaves is seen at once; streams always end, also after the client left; the close
 * callback is cleared before the request's state is freed; a slow reader is cut at a cap. */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"

struct http_server;
struct http_request;

typedef void http_handler_fn(struct http_request *r, void *ctx);

struct http_server_config {
    const char *host; /* "127.0.0.1" */
    uint16_t port;    /* 0 = any free one, see http_server_port */
    size_t max_body_bytes, max_header_bytes;
    uint32_t max_connections; /* beyond: 503 and close; far beyond: they wait to be accepted */
    uint32_t idle_timeout_ms; /* no byte either way */
    uint32_t request_ms;      /* the next request must be there, whole; 0 = idle_timeout_ms */
    size_t slow_reader_bytes; /* queued output above which a stream is cut (1 MiB) */
    /* Called for errors the server answers itself (404, 405, 413, 400, 503): writes the body in
     * the API's error shape. NULL gives {"error":{"message":...}}. */
    void (*error_body)(int status, const char *message, struct buf *out);
};

/* Binds (and ignores SIGPIPE for the process); a busy port gives ERR_IO naming host and port and
 * what to do. */
MUST_USE int http_server_open(struct http_server **out, const struct http_server_config *c,
                              struct err *e);
void http_server_close(struct http_server *s); /* after run returned */
uint16_t http_server_port(const struct http_server *s);
/* method NULL = any; path exact, or a prefix when it ends in '*'. Before run. */
MUST_USE int http_server_route(struct http_server *s, const char *method, const char *path,
                               http_handler_fn *fn, void *ctx, struct err *e);
/* Runs the loop on the calling thread until http_server_stop. */
void http_server_run(struct http_server *s);
/* Stops accepting now, ends the loop when open requests are answered or after grace_ms. Loop
 * thread, or any thread through http_server_post. */
void http_server_stop(struct http_server *s, uint32_t grace_ms);
/* Any thread: fn runs on the loop thread soon. False when the server is closing. */
bool http_server_post(struct http_server *s, void (*fn)(void *ctx), void *ctx);
/* fn runs on the loop when fd is readable. Loop thread or before run. */
MUST_USE int http_server_watch(struct http_server *s, int fd, void (*fn)(int fd, void *ctx),
                               void *ctx, struct err *e);
MUST_USE int http_server_every(struct http_server *s, uint32_t ms, void (*fn)(void *ctx), void *ctx,
                               struct err *e);
/* A timer that does not run yet. Loop thread or before run; it lives as long as the server. */
struct http_watch;
MUST_USE int http_server_timer(struct http_server *s, struct http_watch **out,
                               void (*fn)(void *ctx), void *ctx, struct err *e);
/* fn runs once, after ms; a timer that runs already is left alone. Loop thread or before run. */
void http_timer_start(struct http_watch *t, uint32_t ms);
uint32_t http_server_open_connections(struct http_server *s); /* loop thread */

/* The request. Borrowed until answered. */
const char *http_request_method(const struct http_request *r);
struct str http_request_path(const struct http_request *r); /* decoded, without the query */
struct str http_request_query(const struct http_request *r, const char *key); /* p NULL = absent */
struct str http_request_header(const struct http_request *r,
                               const char *name); /* p NULL = absent */
struct str http_request_body(const struct http_request *r);
struct arena *http_request_arena(struct http_request *r); /* lives as long as the request */
/* True when the header carries the key (Bearer, or X-Milepost-Key); constant time. An empty key
 * means no key is asked. */
bool http_request_has_key(const struct http_request *r, struct str key);

/* Answer in one piece. Headers added before. Frees the request afterwards. */
void http_reply_header(struct http_request *r, const char *name, struct str value);
void http_reply(struct http_request *r, int status, const char *content_type, struct str body);
/* Stream: begin sends the status line and headers at once. send returns false when the client is
 * gone or too slow: stop producing, still call end. on_close runs once when the client leaves
 * before end (never after end was called). */
void http_stream_on_close(struct http_request *r, void (*fn)(void *ctx), void *ctx);
void http_stream_begin(struct http_request *r, int status, const char *content_type);
bool http_stream_send(struct http_request *r, struct str chunk);
void http_stream_end(struct http_request *r);

#endif
