/* The loop, routes and requests on evhttp (libevent 2.1). Everything here runs on the loop thread
 * but http_server_post. A struct http_request lives from dispatch until its reply or stream ended.
 */
#include "common/http_server.h"

#include "common/hash.h"
#include "common/http_internal.h"
#include "common/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ARENA_BYTES = 64 * 1024 * 1024 };

static int add_wakeup(struct http_server *s, struct err *e)
{
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->wake_fd < 0)
        return err_set_sys(e, ERR_IO, errno, "http: eventfd");
    s->wake = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, http_run_posts, s);
    if (!s->wake || event_add(s->wake, NULL) != 0)
        return err_set(e, ERR_NOMEM, "http: events");
    return ERR_OK;
}

static void dispatch(struct evhttp_request *ev, void *ctx);

static int bind_address(struct http_server *s, struct err *e)
{
    const struct http_server_config *c = &s->config;
    s->bound = evhttp_bind_socket_with_handle(s->http, c->host, c->port);
    if (!s->bound)
        return err_set(e, ERR_IO,
                       "cannot listen on %s:%u (%s): is another server running there? choose "
                       "another port or stop it",
                       c->host, c->port, strerror(errno));
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(evhttp_bound_socket_get_fd(s->bound), (struct sockaddr *)&a, &n) == 0)
        s->port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                                : ((struct sockaddr_in *)&a)->sin_port);
    return ERR_OK;
}

/* evhttp answers an over-long body with a bare 400; its own limit stands above ours, so that such a
 * request reaches dispatch and gets a 413 in the API's shape. */
static void set_limits(struct http_server *s)
{
    const struct http_server_config *c = &s->config;
    evhttp_set_max_body_size(s->http, (ev_ssize_t)(2 * c->max_body_bytes + 16 * MiB));
    evhttp_set_max_headers_size(s->http, (ev_ssize_t)c->max_header_bytes);
    evhttp_set_allowed_methods(
        s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                     EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH | EVHTTP_REQ_TRACE);
    struct timeval idle = {c->idle_timeout_ms / 1000, c->idle_timeout_ms % 1000 * 1000};
    evhttp_set_timeout_tv(s->http, &idle);
    evhttp_set_gencb(s->http, dispatch, s);
}

int http_server_open(struct http_server **out, const struct http_server_config *c, struct err *e)
{
    *out = NULL;
    int rc;
    struct http_server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "http server");
    s->config = *c;
    s->wake_fd = -1;
    signal(SIGPIPE, SIG_IGN); /* a client that left must be an error code, not the end of us */
    pthread_mutex_init(&s->lock, NULL);
    struct event_config *ec = event_config_new();
    s->base = ec ? event_base_new_with_config(ec) : NULL;
    if (ec)
        event_config_free(ec);
    s->http = s->base ? evhttp_new(s->base) : NULL;
    if (!s->http)
        TRY(err_set(e, ERR_NOMEM, "http server"));
    set_limits(s);
    TRY(add_wakeup(s, e));
    TRY(bind_address(s, e));
    TRY(http_peers_watch(s, e));
    s->peek = event_new(s->base, -1, 0, http_find_departed, s);
    if (!s->peek)
        TRY(err_set(e, ERR_NOMEM, "http: events"));
    *out = s;
    return ERR_OK;
out:
    http_server_close(s);
    return rc;
}

void http_server_close(struct http_server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_mutex_unlock(&s->lock);
    while (s->requests)
        http_abandon(s->requests);
    for (struct http_watch *w = s->watches, *next; w; w = next) {
        next = w->next;
        event_free(w->event);
        free(w);
    }
    for (struct http_post *p = s->posts, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    for (struct http_route *r = s->routes, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    if (s->peek)
        event_free(s->peek);
    if (s->look)
        event_free(s->look);
    if (s->wake)
        event_free(s->wake);
    if (s->http)
        evhttp_free(s->http);
    if (s->base)
        event_base_free(s->base);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s->peers);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

int http_server_route(struct http_server *s, const char *method, const char *path,
                      http_handler_fn *fn, void *ctx, struct err *e)
{
    struct http_route *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "http route");
    *r = (struct http_route){.method = method, .path = str_from(path), .fn = fn, .ctx = ctx};
    r->is_prefix = str_ends(r->path, STR("*"));
    if (r->is_prefix)
        r->path.n--;
    struct http_route **at = &s->routes;
    while (*at)
        at = &(*at)->next;
    *at = r;
    return ERR_OK;
}

/* The first route whose path and method fit; `allowed` gets the methods of the path otherwise, so
 * that a 405 can name them. HEAD is GET whose body stays here (RFC 9110, 9.3.2). */
static const struct http_route *find_route(const struct http_server *s, struct str path,
                                           const char *method, struct buf *allowed)
{
    bool is_head = strcmp(method, "HEAD") == 0;
    for (const struct http_route *r = s->routes; r; r = r->next) {
        if (r->is_prefix ? !str_starts(path, r->path) : !str_eq(path, r->path))
            continue;
        if (!r->method || strcmp(r->method, is_head ? "GET" : method) == 0)
            return r;
        buf_printf(allowed, "%s%s%s", allowed->n ? ", " : "", r->method,
                   strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
    }
    return NULL;
}

static void refuse(struct http_request *r, int status, const char *message)
{
    struct buf body;
    buf_init(&body, 64 * KiB);
    if (r->server->config.error_body)
        r->server->config.error_body(status, message, &body);
    else
        buf_printf(&body, "{\"error\":{\"message\":\"%s\"}}", message);
    if (status == 413 || status == 503)
        http_reply_header(r, "Connection", STR("close"));
    if (status == 503)
        http_reply_header(r, "Retry-After", STR("1"));
    http_reply(r, status, "application/json", buf_str(&body));
    buf_free(&body);
}

static struct http_request *request_new(struct http_server *s, struct evhttp_request *ev)
{
    struct http_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->server = s;
    r->ev = ev;
    arena_init(&r->arena, ARENA_BYTES);
    r->next = s->requests;
    if (r->next)
        r->next->back = &r->next;
    r->back = &s->requests;
    s->requests = r;
    s->n_requests++;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(ev));
    size_t n = 0;
    char *decoded = evhttp_uridecode(path && *path ? path : "/", 0, &n);
    r->path = arena_str(&r->arena, (struct str){decoded, decoded ? n : 0});
    free(decoded);
    http_peer_touch(r);
    return r;
}

static void refuse_route(struct http_request *r, struct str allowed)
{
    if (allowed.n)
        http_reply_header(r, "Allow", allowed);
    refuse(r, allowed.n ? 405 : 404,
           allowed.n ? "this path does not answer that method" : "no such path");
}

static void dispatch(struct evhttp_request *ev, void *ctx)
{
    struct http_server *s = ctx;
    struct http_request *r = request_new(s, ev);
    if (!r) {
        evhttp_send_error(ev, 503, NULL);
        return;
    }
    char methods[128];
    struct buf allowed = {.p = methods, .cap = sizeof methods, .max_bytes = sizeof methods - 1};
    const struct http_route *route = find_route(s, r->path, http_request_method(r), &allowed);
    if (evbuffer_get_length(evhttp_request_get_input_buffer(ev)) > s->config.max_body_bytes)
        refuse(r, 413, "the request body is larger than this server allows");
    else if (http_count_is_over(s))
        refuse(r, 503, "too many connections: try again later");
    else if (!route)
        refuse_route(r, buf_str(&allowed));
    else
        route->fn(r, route->ctx);
}

const char *http_request_method(const struct http_request *r)
{
    static const struct {
        enum evhttp_cmd_type type;
        const char *name;
    } METHODS[] = {{EVHTTP_REQ_GET, "GET"},       {EVHTTP_REQ_POST, "POST"},
                   {EVHTTP_REQ_HEAD, "HEAD"},     {EVHTTP_REQ_PUT, "PUT"},
                   {EVHTTP_REQ_DELETE, "DELETE"}, {EVHTTP_REQ_OPTIONS, "OPTIONS"},
                   {EVHTTP_REQ_PATCH, "PATCH"},   {EVHTTP_REQ_TRACE, "TRACE"}};
    size_t i = 0;
    while (i + 1 < sizeof METHODS / sizeof *METHODS &&
           METHODS[i].type != evhttp_request_get_command(r->ev))
        i++;
    return METHODS[i].name;
}

struct str http_request_path(const struct http_request *r)
{
    return r->path;
}

struct str http_request_query(const struct http_request *r, const char *key)
{
    struct http_request *owner = (struct http_request *)(uintptr_t)r; /* the arena is a cache */
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(r->ev));
    struct evkeyvalq pairs;
    struct str value = {NULL, 0};
    if (!query || evhttp_parse_query_str(query, &pairs) != 0)
        return value;
    const char *found = evhttp_find_header(&pairs, key);
    if (found)
        value = arena_str(&owner->arena, str_from(found));
    evhttp_clear_headers(&pairs);
    return value;
}

struct str http_request_header(const struct http_request *r, const char *name)
{
    const char *v = evhttp_find_header(evhttp_request_get_input_headers(r->ev), name);
    return v ? str_from(v) : (struct str){NULL, 0};
}

struct str http_request_body(const struct http_request *r)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(r->ev);
    size_t n = evbuffer_get_length(in);
    return (struct str){n ? (const char *)evbuffer_pullup(in, -1) : "", n};
}

struct arena *http_request_arena(struct http_request *r)
{
    return &r->arena;
}

bool http_request_has_key(const struct http_request *r, struct str key)
{
    if (key.n == 0)
        return true;
    struct str bearer = http_request_header(r, "Authorization");
    if (str_starts(bearer, STR("Bearer ")) &&
        str_eq_constant_time(str_trim(str_slice(bearer, 7, bearer.n)), key))
        return true;
    struct str own = http_request_header(r, "X-Milepost-Key");
    return own.p && str_eq_constant_time(own, key);
}
