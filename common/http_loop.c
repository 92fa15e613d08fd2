/* The loop around the requests: watched descriptors, timers, posts from other threads,
 * stopping with grace. */
#include "common/http_internal.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CUT_EXTRA_US = 300000, FLUSH_US = 1000000, PEEK_US = 25000, MOST_UNREAD = 32 * 1024 };

static void on_watch(int fd, short what, void *ctx)
{
    struct http_watch *w = ctx;
    if (what & EV_READ)
        w->on_fd(fd, w->ctx);
    else
        w->on_time(w->ctx);
}

static int new_watch(struct http_server *s, int fd, short what, struct http_watch model,
                     struct http_watch **out, struct err *e)
{
    struct http_watch *w = malloc(sizeof *w);
    if (!w)
        return err_set(e, ERR_NOMEM, "http: event");
    *w = model;
    w->event = event_new(s->base, fd, what, on_watch, w);
    if (!w->event) {
        free(w);
        return err_set(e, ERR_NOMEM, "http: event");
    }
    w->next = s->watches;
    s->watches = *out = w;
    return ERR_OK;
}

static int add_watch(struct http_server *s, int fd, short what, const struct timeval *period,
                     struct http_watch model, struct err *e)
{
    struct http_watch *w;
    int rc = new_watch(s, fd, what | EV_PERSIST, model, &w, e);
    if (rc == ERR_OK && event_add(w->event, period) != 0)
        rc = err_set(e, ERR_NOMEM, "http: event");
    return rc;
}

int http_server_watch(struct http_server *s, int fd, void (*fn)(int fd, void *ctx), void *ctx,
                      struct err *e)
{
    return add_watch(s, fd, EV_READ, NULL, (struct http_watch){.on_fd = fn, .ctx = ctx}, e);
}

int http_server_every(struct http_server *s, uint32_t ms, void (*fn)(void *ctx), void *ctx,
                      struct err *e)
{
    struct timeval period = {ms / 1000, ms % 1000 * 1000};
    return add_watch(s, -1, EV_TIMEOUT, &period, (struct http_watch){.on_time = fn, .ctx = ctx}, e);
}

int http_server_timer(struct http_server *s, struct http_watch **out, void (*fn)(void *ctx),
                      void *ctx, struct err *e)
{
    return new_watch(s, -1, EV_TIMEOUT, (struct http_watch){.on_time = fn, .ctx = ctx}, out, e);
}

void http_timer_start(struct http_watch *t, uint32_t ms)
{
    const struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    if (!event_pending(t->event, EV_TIMEOUT, NULL))
        event_add(t->event, &tv);
}

bool http_server_post(struct http_server *s, void (*fn)(void *ctx), void *ctx)
{
    struct http_post *p = malloc(sizeof *p);
    if (!p)
        return false;
    *p = (struct http_post){.fn = fn, .ctx = ctx};
    pthread_mutex_lock(&s->lock);
    bool open = !s->closed;
    if (open) {
        *(s->posts ? s->last_post : &s->posts) = p;
        s->last_post = &p->next;
        (void)!write(s->wake_fd, &(uint64_t){1}, 8);
    }
    pthread_mutex_unlock(&s->lock);
    if (!open)
        free(p);
    return open;
}

void http_run_posts(int fd, short what, void *server)
{
    (void)what;
    struct http_server *s = server;
    (void)!read(fd, &(uint64_t){0}, 8);
    pthread_mutex_lock(&s->lock);
    struct http_post *p = s->posts;
    s->posts = NULL;
    pthread_mutex_unlock(&s->lock);
    for (struct http_post *next; p; p = next) {
        next = p->next;
        p->fn(p->ctx);
        free(p);
    }
}

void http_schedule_peek(struct http_server *s)
{
    static const struct timeval PERIOD = {0, PEEK_US};
    if (!event_pending(s->peek, EV_TIMEOUT, NULL))
        event_add(s->peek, &PERIOD);
}

/* Seen also behind bytes of a further request that wait unread; but when they fill the kernel's
 * buffer the end cannot arrive: one that sends so much while it waits has gone for us. */
static bool has_left(const struct http_request *r)
{
    struct pollfd p = {.fd = http_request_fd(r), .events = POLLRDHUP};
    int n_unread = 0;
    if (p.fd < 0 || (poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))))
        return true;
    return ioctl(p.fd, FIONREAD, &n_unread) == 0 && n_unread > MOST_UNREAD;
}

/* A request that has not begun to answer is not watched by evhttp: a client that left it is seen by
 * asking its socket. The timer runs only while there is such a request. */
void http_find_departed(int fd, short what, void *server)
{
    (void)fd;
    (void)what;
    struct http_server *s = server;
    bool some_wait = false;
    for (struct http_request *r = s->requests, *next; r; r = next) {
        next = r->next;
        if (r->begun || r->gone || !r->on_close)
            continue;
        if (has_left(r))
            http_mark_gone(r);
        else
            some_wait = true;
    }
    if (some_wait)
        http_schedule_peek(s);
}

static void cut_requests(struct http_server *s)
{
    for (struct http_request *r = s->requests; r; r = r->next) {
        struct evhttp_connection *c = evhttp_request_get_connection(r->ev);
        if (c)
            shutdown(bufferevent_getfd(evhttp_connection_get_bufferevent(c)), SHUT_RDWR);
    }
}

static void check_stopped(void *ctx)
{
    struct http_server *s = ctx;
    struct mono now = clock_mono(&CLOCK_REAL);
    if (s->n_requests > 0 && now.us < s->cut_at.us)
        return;
    if (s->n_requests > 0 && !s->was_cut) {
        s->was_cut = true;
        s->cut_at.us = now.us + CUT_EXTRA_US;
        cut_requests(s);
        return;
    }
    if (s->n_unsent > 0 && !s->is_flushing) { /* a client that left keeps its count: not for ever */
        s->is_flushing = true;
        s->cut_at.us = now.us + FLUSH_US;
    }
    if (s->n_unsent == 0 || now.us >= s->cut_at.us)
        event_base_loopbreak(s->base);
}

void http_server_stop(struct http_server *s, uint32_t grace_ms)
{
    if (s->stopping)
        return;
    s->stopping = true;
    evhttp_del_accept_socket(s->http, s->bound);
    s->bound = NULL;
    s->cut_at.us = clock_mono(&CLOCK_REAL).us + (uint64_t)grace_ms * 1000;
    if (http_server_every(s, 10, check_stopped, s, NULL) != ERR_OK)
        event_base_loopbreak(s->base);
}

void http_server_run(struct http_server *s)
{
    event_base_dispatch(s->base);
}
