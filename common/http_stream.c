/* Replies and streams. The order of the calls at the end matters: clear the close callback, end the
 * evhttp reply (also when the client is gone: that frees evhttp's part), then free ours. */
#include "common/http_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void request_free(struct http_request *r)
{
    *r->back = r->next;
    if (r->next)
        r->next->back = r->back;
    r->server->n_requests--;
    arena_free(&r->arena);
    free(r);
}

int http_request_fd(const struct http_request *r)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    return c ? bufferevent_getfd(evhttp_connection_get_bufferevent(c)) : -1;
}

static void clear_close_callback(struct http_request *r)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    http_peer_touch(r);
    r->on_close = NULL;
    if (c)
        evhttp_connection_set_closecb(c, NULL, NULL);
}

void http_mark_gone(struct http_request *r)
{
    void (*fn)(void *) = r->on_close;
    if (r->gone)
        return;
    r->gone = true;
    r->on_close = NULL;
    if (fn)
        fn(r->close_ctx);
}

void http_reply_header(struct http_request *r, const char *name, struct str value)
{
    char *text = str_dup_c(value); /* evhttp refuses line breaks in values itself */
    if (text)
        evhttp_add_header(evhttp_request_get_output_headers(r->ev), name, text);
    free(text);
}

static void on_sent(struct evhttp_request *ev, void *server)
{
    (void)ev;
    struct http_server *s = server;
    s->n_unsent--;
}

/* Before the answer's last call: a stop then waits for the bytes, not only for the handler. */
static void count_unsent(struct http_request *r)
{
    if (r->gone || !evhttp_request_get_connection(r->ev))
        return;
    r->server->n_unsent++;
    evhttp_request_set_on_complete_cb(r->ev, on_sent, r->server);
}

void http_reply(struct http_request *r, int status, const char *content_type, struct str body)
{
    struct evbuffer *out = evbuffer_new();
    char length[24];
    clear_close_callback(r);
    http_reply_header(r, "Content-Type", str_from(content_type));
    if (evhttp_request_get_command(r->ev) == EVHTTP_REQ_HEAD) {
        snprintf(length, sizeof length, "%zu", body.n); /* evhttp gives it only with a body */
        http_reply_header(r, "Content-Length", str_from(length));
    } else if (out) {
        evbuffer_add(out, body.p, body.n);
    }
    count_unsent(r);
    evhttp_send_reply(r->ev, status, NULL, out);
    if (out)
        evbuffer_free(out);
    request_free(r);
}

static void on_connection_close(struct evhttp_connection *c, void *ctx)
{
    (void)c;
    http_mark_gone(ctx);
}

void http_stream_on_close(struct http_request *r, void (*fn)(void *ctx), void *ctx)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    r->on_close = fn;
    r->close_ctx = ctx;
    if (c)
        evhttp_connection_set_closecb(c, fn ? on_connection_close : NULL, r);
    if (fn && !r->begun)
        http_schedule_peek(r->server);
}

/* While a stream runs evhttp reads on, to see the client leave, and keeps what it reads: a client
 * that sends without end would fill our memory. 0 = read without a limit again. */
static void limit_reading(struct http_request *r, size_t bytes)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    if (c)
        bufferevent_setwatermark(evhttp_connection_get_bufferevent(c), EV_READ, 0, bytes);
}

void http_stream_begin(struct http_request *r, int status, const char *content_type)
{
    r->begun = true;
    limit_reading(r, r->server->config.slow_reader_bytes);
    http_reply_header(r, "Content-Type", str_from(content_type));
    evhttp_send_reply_start(r->ev, status, NULL);
}

/* A slow client leaves bytes waiting; one that sends while it is answered sends bytes nobody takes,
 * and from the limit on its departure would not be seen. */
static bool is_over(struct evhttp_connection *c, size_t limit)
{
    struct bufferevent *b = evhttp_connection_get_bufferevent(c);
    return evbuffer_get_length(bufferevent_get_output(b)) > limit ||
           evbuffer_get_length(bufferevent_get_input(b)) >= limit;
}

bool http_stream_send(struct http_request *r, struct str chunk)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    if (r->gone || !c)
        return false;
    if (is_over(c, r->server->config.slow_reader_bytes)) {
        r->gone = true;
        shutdown(bufferevent_getfd(evhttp_connection_get_bufferevent(c)), SHUT_RDWR);
        return false;
    }
    if (chunk.n == 0)
        return true; /* an empty chunk would end the body */
    struct evbuffer *out = evbuffer_new();
    if (!out || evbuffer_add(out, chunk.p, chunk.n) != 0) {
        if (out)
            evbuffer_free(out);
        return false;
    }
    evhttp_send_reply_chunk(r->ev, out);
    evbuffer_free(out);
    return true;
}

void http_stream_end(struct http_request *r)
{
    clear_close_callback(r);
    limit_reading(r, 0);
    count_unsent(r);
    evhttp_send_reply_end(r->ev);
    request_free(r);
}

void http_abandon(struct http_request *r)
{
    clear_close_callback(r);
    if (r->begun)
        evhttp_send_reply_end(r->ev);
    else
        evhttp_send_reply(r->ev, 503, NULL, NULL);
    request_free(r);
}
