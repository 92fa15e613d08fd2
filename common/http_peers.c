/* How many connections there may be and how long one may be silent. libevent 2.1 has no count of
 * its own, no limit at accept, and its timeout starts again with each byte; so the kernel is asked:
 * a look at our descriptors counts the connections and finds those that bring no request in time
 * (slow headers, a body that drips, an idle keep-alive). It is taken soon after a connection came
 * and when the first of those known runs out of time: a server that nobody uses sleeps. Loop
 * thread. */
#include "common/http_internal.h"

#include <dirent.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    LOOK_MS = 250, /* after a connection came, and between two looks */
    FRESH_US = 10000,
    CROWDED_MS = 5000, /* patience with silent connections while there are too many */
    SPARE = 32,        /* descriptors kept free */
    MARGIN = 64,       /* this many over the limit are accepted, to be told 503 */
    MAX_PEERS = 1024 * 1024
};

static bool is_ours(const struct http_server *s, int fd)
{
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    uint16_t port = 0;
    if (s->bound && fd == evhttp_bound_socket_get_fd(s->bound))
        return false;
    if (getsockname(fd, (struct sockaddr *)&a, &size) != 0)
        return false;
    if (a.ss_family == AF_INET)
        port = ((struct sockaddr_in *)&a)->sin_port;
    else if (a.ss_family == AF_INET6)
        port = ((struct sockaddr_in6 *)&a)->sin6_port;
    return port != 0 && ntohs(port) == s->port;
}

/* NULL when there is no memory for it: the connection is then only counted. */
static struct http_peer *peer_at(struct http_server *s, int fd)
{
    uint32_t n = s->n_peers ? s->n_peers : 64;
    if (fd < 0 || fd >= MAX_PEERS)
        return NULL;
    while (n <= (uint32_t)fd)
        n *= 2;
    if (n > s->n_peers) {
        struct http_peer *peers = realloc(s->peers, n * sizeof *peers);
        if (!peers)
            return NULL;
        for (uint32_t i = s->n_peers; i < n; i++)
            peers[i] = (struct http_peer){0};
        s->peers = peers;
        s->n_peers = n;
    }
    return &s->peers[fd];
}

void http_peer_touch(struct http_request *r)
{
    struct http_peer *p = peer_at(r->server, http_request_fd(r));
    if (p)
        p->since = clock_mono(&CLOCK_REAL);
}

/* For how long it has been silent. */
static uint64_t look_at(struct http_server *s, int fd, struct mono now, uint64_t patience_us)
{
    struct stat st;
    struct http_peer *p = peer_at(s, fd);
    if (!p || fstat(fd, &st) != 0)
        return 0;
    if (p->inode != st.st_ino) /* the number belongs to another connection now */
        *p = (struct http_peer){.inode = st.st_ino, .since = now};
    uint64_t silent_us = mono_since_us(p->since, now);
    if (silent_us <= patience_us)
        return silent_us;
    shutdown(fd, SHUT_RDWR); /* evhttp sees the end and frees it */
    return 0;
}

static uint64_t patience_us(const struct http_server *s)
{
    const struct http_server_config *c = &s->config;
    uint32_t ms = c->request_ms ? c->request_ms : c->idle_timeout_ms;
    bool is_over = c->max_connections && s->n_connections > c->max_connections;
    if ((is_over || s->is_paused) && ms > CROWDED_MS)
        ms = CROWDED_MS;
    return (uint64_t)ms * 1000;
}

static void look_in(struct http_server *s, uint64_t us)
{
    const struct timeval tv = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    s->next_look.us = clock_mono(&CLOCK_REAL).us + us;
    event_add(s->look, &tv);
}

/* The next look: when the one that has been silent longest runs out of time. */
static void plan_look(struct http_server *s, uint64_t longest_us)
{
    const uint64_t least_us = LOOK_MS * 1000, all_us = patience_us(s) + 1000;
    uint64_t left_us = all_us > longest_us ? all_us - longest_us : 0;
    if (s->n_connections == 0 && !s->is_paused)
        event_del(s->look);
    else
        look_in(s, s->is_paused || left_us < least_us ? least_us : left_us);
}

static void look(struct http_server *s)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0, n_other = 0;
    uint64_t patience = patience_us(s), longest_us = 0;
    for (struct http_request *r = s->requests; r; r = r->next)
        http_peer_touch(r); /* being answered is not being silent */
    for (struct dirent *f; d && (f = readdir(d));) {
        int fd = (int)strtol(f->d_name, NULL, 10);
        if (f->d_name[0] == '.')
            continue;
        if (!is_ours(s, fd)) {
            n_other++;
            continue;
        }
        n++;
        uint64_t silent_us = look_at(s, fd, now, patience);
        longest_us = silent_us > longest_us ? silent_us : longest_us;
    }
    if (d)
        closedir(d);
    s->n_connections = n;
    s->n_other = n_other;
    s->n_accepted = 0;
    s->looked_at = now;
    plan_look(s, longest_us);
}

/* True when there are more than `max`. Looking costs system calls per descriptor, so it is done
 * only when the number could be there, and at most once in FRESH_US without new connections. */
static bool count_is_over(struct http_server *s, uint32_t max)
{
    if (s->n_connections + s->n_accepted <= max)
        return false;
    if (s->n_accepted || mono_since_us(s->looked_at, clock_mono(&CLOCK_REAL)) > FRESH_US)
        look(s);
    return s->n_connections > max;
}

/* Whom it is said of is closed, which makes room for the next: of a crowd only the excess goes. */
bool http_count_is_over(struct http_server *s)
{
    uint32_t max = s->config.max_connections;
    bool is_over = max && count_is_over(s, max);
    s->n_connections -= is_over;
    return is_over;
}

uint32_t http_server_open_connections(struct http_server *s)
{
    look(s);
    return s->n_connections;
}

/* No more than there are descriptors for, less some for files and queues: without any, accept would
 * fail and be tried again without end. */
static uint32_t most_accepted(const struct http_server *s)
{
    struct rlimit limit;
    uint32_t max = s->config.max_connections ? s->config.max_connections + MARGIN : UINT32_MAX;
    uint64_t taken = (uint64_t)s->n_other + SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= max + taken)
        return max;
    return limit.rlim_cur > taken ? (uint32_t)(limit.rlim_cur - taken) : 1;
}

static void set_paused(struct http_server *s, bool is_paused)
{
    if (!s->bound || s->is_paused == is_paused)
        return;
    struct evconnlistener *l = evhttp_bound_socket_get_listener(s->bound);
    s->is_paused = is_paused;
    if (is_paused)
        evconnlistener_disable(l);
    else
        evconnlistener_enable(l);
}

static struct bufferevent *on_accept(struct event_base *base, void *server)
{
    struct http_server *s = server;
    uint64_t soon = clock_mono(&CLOCK_REAL).us + LOOK_MS * 1000;
    s->n_accepted++;
    if (!event_pending(s->look, EV_TIMEOUT, NULL) || s->next_look.us > soon)
        look_in(s, LOOK_MS * 1000);
    if (count_is_over(s, most_accepted(s) - 1)) /* the last place is this one's */
        set_paused(s, true);
    return bufferevent_socket_new(base, -1, 0);
}

static void on_look(int fd, short what, void *server)
{
    (void)fd;
    (void)what;
    struct http_server *s = server;
    look(s);
    if (s->n_connections < most_accepted(s))
        set_paused(s, false);
}

int http_peers_watch(struct http_server *s, struct err *e)
{
    s->look = event_new(s->base, -1, 0, on_look, s);
    evhttp_set_bevcb(s->http, on_accept, s);
    return s->look ? ERR_OK : err_set(e, ERR_NOMEM, "http: events");
}
