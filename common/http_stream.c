/* Replies and streams. The order of the calls at the end matters: clear the close callback, end the
 * evhttp reply (also when the client is gone: that frees evhttp's part), then free ours. */
#include "common/http_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
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

static void clear_close_callback(struct http_request *r)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
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
    clear_close_callback(r);
    http_reply_header(r, "Content-Type", str_from(content_type));
    if (out)
        evbuffer_add(out, body.p, body.n);
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

void http_stream_begin(struct http_request *r, int status, const char *content_type)
{
    r->begun = true;
    http_reply_header(r, "Content-Type", str_from(content_type));
    evhttp_send_reply_start(r->ev, status, NULL);
}

/* Bytes that wait for a slow client. */
static size_t queued_bytes(struct evhttp_connection *c)
{
    return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(c)));
}

bool http_stream_send(struct http_request *r, struct str chunk)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
    if (r->gone || !c)
        return false;
    if (queued_bytes(c) > r->server->config.slow_reader_bytes) {
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
