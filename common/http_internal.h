/* common/http_internal.h - shared by http_server.c, http_loop.c and http_stream.c only. */
#ifndef COMMON_HTTP_INTERNAL_H
#define COMMON_HTTP_INTERNAL_H

#include "common/http_server.h"

#include <pthread.h>

struct event;
struct evhttp_request;

struct http_route {
    struct http_route *next;
    const char *method;
    struct str path;
    bool is_prefix;
    http_handler_fn *fn;
    void *ctx;
};

struct http_peer { /* a connection as /proc knows it; inode 0 = none seen */
    uint64_t inode;
    struct mono since; /* its last request began or ended, or it came */
};

struct http_watch { /* an fd or a timer */
    struct http_watch *next;
    struct event *event;
    void (*on_fd)(int fd, void *ctx);
    void (*on_time)(void *ctx);
    void *ctx;
};

struct http_post {
    struct http_post *next;
    void (*fn)(void *ctx);
    void *ctx;
};

struct http_server {
    struct http_server_config config;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound;
    uint16_t port;
    struct http_route *routes;
    struct http_watch *watches;
    struct http_request *requests;
    uint32_t n_requests;
    uint32_t n_unsent;                  /* answered, but bytes may still wait in our buffers */
    uint32_t n_connections, n_accepted; /* their sum is an upper bound, counted again if needed */
    struct event *look;                 /* not pending while there is no connection */
    struct mono looked_at, next_look;
    bool is_paused;          /* not accepting: far too many, or no descriptors left */
    struct http_peer *peers; /* [n_peers], by descriptor */
    uint32_t n_peers;
    uint32_t n_other; /* descriptors that are no connections */
    bool stopping;
    struct mono cut_at; /* while stopping: when open requests are cut */
    bool was_cut, is_flushing;
    pthread_mutex_t lock; /* posts, closed */
    struct http_post *posts, **last_post;
    bool closed;
    int wake_fd;
    struct event *wake;
    struct event *peek; /* pending while a request waits unanswered with a close callback */
};

struct http_request {
    struct http_request *next, **back;
    struct http_server *server;
    struct evhttp_request *ev;
    struct arena arena;
    struct str path;
    void (*on_close)(void *ctx);
    void *close_ctx;
    bool begun, gone;
};

/* The client left: remembers it and tells the handler once. */
void http_mark_gone(struct http_request *r);
/* Ends a request at shutdown without telling its handler. */
void http_abandon(struct http_request *r);
void http_find_departed(int fd, short what, void *server); /* timer */
void http_schedule_peek(struct http_server *s);
void http_run_posts(int fd, short what, void *server);
/* http_peers.c: how many connections there may be, and how long one may be silent. */
MUST_USE int http_peers_watch(struct http_server *s, struct err *e);
bool http_count_is_over(struct http_server *s);
void http_peer_touch(struct http_request *r);
int http_request_fd(const struct http_request *r); /* -1 = the client is gone */

#endif
