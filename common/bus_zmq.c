/* ZeroMQ transport; the only file that knows libzmq.
 *
 * Choices, each after a measured trap: IMMEDIATE so that a message is never parked for a peer that
 * is not there; linger 0 so that closing never hangs; ROUTER_MANDATORY so that an unknown peer is
 * an error and HANDOVER so that a restarted engine takes its identity over; small high-water marks
 * because the outbox is the buffer. */
#include "common/bus_backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum { HEARTBEAT_MS = 2000, DEFAULT_MESSAGE_MIB = 16, RECONNECT_MAX_MS = 1000 };

struct zmq_bus {
    struct bus base;
    void *context;
};

struct zmq_socket {
    struct bus_socket base;
    void *handle;
};

static void zmq_bus_close(struct bus *b)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    zmq_ctx_term(z->context);
    free(z);
}

static void zmq_socket_end(struct bus_socket *s)
{
    struct zmq_socket *z = (struct zmq_socket *)s;
    zmq_close(z->handle);
    free(z);
}

static int put_int(void *handle, int option, int value)
{
    return zmq_setsockopt(handle, option, &value, sizeof value);
}

static int put_options(void *handle, const struct bus_options *o)
{
    int high_water = o->high_water > 0 ? o->high_water : BUS_DEFAULT_HIGH_WATER;
    int64_t max_bytes =
        o->max_message_bytes ? (int64_t)o->max_message_bytes : DEFAULT_MESSAGE_MIB * (int64_t)MiB;
    int bad = put_int(handle, ZMQ_LINGER, 0) | put_int(handle, ZMQ_SNDHWM, high_water) |
              put_int(handle, ZMQ_RCVHWM, high_water) | put_int(handle, ZMQ_IMMEDIATE, 1) |
              put_int(handle, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) |
              put_int(handle, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) |
              zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    /* With IPv6 on, libzmq reports 127.0.0.1 as ::ffff:127.0.0.1: only where it is asked for. */
    if (strchr(o->address, '['))
        bad |= put_int(handle, ZMQ_IPV6, 1);
    if (o->kind == BUS_ROUTER)
        bad |= put_int(handle, ZMQ_ROUTER_MANDATORY, 1) | put_int(handle, ZMQ_ROUTER_HANDOVER, 1);
    if (o->kind == BUS_DEALER && o->identity && o->identity[0])
        bad |= zmq_setsockopt(handle, ZMQ_ROUTING_ID, o->identity, strlen(o->identity));
    return bad;
}

static int put_key(void *handle, int option, struct str key)
{
    char text[41] = {0};
    memcpy(text, key.p, key.n < 40 ? key.n : 40);
    return zmq_setsockopt(handle, option, text, sizeof text);
}

static int put_security(void *handle, const struct bus_security *s)
{
    if (s->server_secret.n) {
        return put_int(handle, ZMQ_CURVE_SERVER, 1) |
               put_key(handle, ZMQ_CURVE_SECRETKEY, s->server_secret);
    }
    if (!s->server_public.n)
        return 0;
    return put_key(handle, ZMQ_CURVE_SERVERKEY, s->server_public) |
           put_key(handle, ZMQ_CURVE_PUBLICKEY, s->public_key) |
           put_key(handle, ZMQ_CURVE_SECRETKEY, s->secret_key);
}

static int attach_one(struct zmq_socket *z, const char *address, bool bind, struct err *e)
{
    if ((bind ? zmq_bind(z->handle, address) : zmq_connect(z->handle, address)) != 0) {
        int code = zmq_errno();
        return err_set(e, code == EINVAL ? ERR_INVALID : ERR_IO, "bus: cannot %s %s: %s%s",
                       bind ? "bind" : "connect to", address, zmq_strerror(code),
                       code == EADDRINUSE ? "; another process uses it: stop it or change the "
                                            "address in the configuration"
                                          : "");
    }
    snprintf(z->base.address, sizeof z->base.address, "%s", address);
    if (bind) {
        size_t n = sizeof z->base.address;
        zmq_getsockopt(z->handle, ZMQ_LAST_ENDPOINT, z->base.address, &n);
    }
    return ERR_OK;
}

static int zmq_socket_start(struct bus_socket **out, struct bus *b, const struct bus_options *o,
                            struct err *e)
{
    static const int TYPE[] = {ZMQ_PUSH, ZMQ_PULL, ZMQ_DEALER, ZMQ_ROUTER};
    struct zmq_socket *z = calloc(1, sizeof *z);
    if (!z)
        return err_set(e, ERR_NOMEM, "bus: no memory for a socket");
    z->base.backend = b->backend;
    z->base.kind = o->kind;
    z->handle = zmq_socket(((struct zmq_bus *)b)->context, TYPE[o->kind]);
    int rc = ERR_OK;
    if (!z->handle)
        rc = err_set(e, ERR_IO, "bus: cannot make a socket: %s", zmq_strerror(zmq_errno()));
    else if (put_options(z->handle, o) || put_security(z->handle, &o->security))
        rc = err_set(e, ERR_INVALID, "bus: option or key refused: %s", zmq_strerror(zmq_errno()));
    const char *rest = o->address;
    char address[BUS_ADDRESS_BYTES];
    while (rc == ERR_OK && bus_next_address(&rest, address))
        rc = attach_one(z, address, o->bind, e);
    if (rc != ERR_OK) {
        if (z->handle)
            zmq_close(z->handle);
        free(z);
        return rc;
    }
    *out = &z->base;
    return ERR_OK;
}

static int send_failed(const struct bus_socket *s, struct err *e)
{
    int code = zmq_errno();
    if (code == EAGAIN)
        return err_set(e, ERR_BUSY, "bus %s: peer absent or its queue is full", s->address);
    if (code == EHOSTUNREACH)
        return err_set(e, ERR_NOT_FOUND, "bus %s: peer is not connected", s->address);
    return err_set(e, ERR_IO, "bus %s: send: %s", s->address, zmq_strerror(code));
}

static int zmq_socket_send(struct bus_socket *s, struct str peer, struct str message, struct err *e)
{
    void *handle = ((struct zmq_socket *)s)->handle;
    int sent;
    if (s->kind == BUS_ROUTER) {
        do
            sent = zmq_send(handle, peer.p, peer.n, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        while (sent < 0 && zmq_errno() == EINTR);
        if (sent < 0)
            return send_failed(s, e);
    }
    do
        sent = zmq_send(handle, message.p, message.n, ZMQ_DONTWAIT);
    while (sent < 0 && zmq_errno() == EINTR);
    return sent < 0 ? send_failed(s, e) : ERR_OK;
}

struct held { /* what a bus_message owns */
    zmq_msg_t peer, body;
};

static void held_free(void *owner)
{
    struct held *h = owner;
    zmq_msg_close(&h->peer);
    zmq_msg_close(&h->body);
    free(h);
}

static struct held *held_new(void)
{
    struct held *h = malloc(sizeof *h);
    if (h) {
        zmq_msg_init(&h->peer);
        zmq_msg_init(&h->body);
    }
    return h;
}

static int receive_part(struct zmq_socket *z, zmq_msg_t *part)
{
    int got;
    do
        got = zmq_msg_recv(part, z->handle, ZMQ_DONTWAIT);
    while (got < 0 && zmq_errno() == EINTR);
    return got;
}

/* Reads one whole message; false when none waits. Frames: [peer] message. Others are dropped. */
static bool take_message(struct zmq_socket *z, struct held *h, bool *is_good)
{
    uint32_t want = z->base.kind == BUS_ROUTER ? 2 : 1, n = 0;
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    for (bool has_more = true; has_more; n++) {
        zmq_msg_t *part = n + 1 == want ? &h->body : n == 0 ? &h->peer : &surplus;
        if (receive_part(z, part) < 0) /* parts come together: only before the first */
            break;
        has_more = zmq_msg_more(part);
    }
    zmq_msg_close(&surplus);
    *is_good = n == want;
    return n > 0;
}

static struct str part_str(zmq_msg_t *part)
{
    return (struct str){zmq_msg_data(part), zmq_msg_size(part)};
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for_message(struct zmq_socket *z, int timeout_ms, struct held *h, struct err *e)
{
    int64_t end = now_ms() + timeout_ms;
    for (;;) {
        bool is_good = false;
        if (take_message(z, h, &is_good)) {
            if (is_good)
                return ERR_OK;
            continue;
        }
        int64_t left = timeout_ms < 0 ? -1 : end - now_ms();
        if (timeout_ms >= 0 && left <= 0)
            return err_set(e, ERR_TIMEOUT, "bus %s: nothing came in %d ms", z->base.address,
                           timeout_ms);
        zmq_pollitem_t item = {.socket = z->handle, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, (long)left);
    }
}

static int zmq_socket_take(struct bus_socket *s, int timeout_ms, struct bus_message *out,
                           struct err *e)
{
    struct held *h = held_new();
    if (!h)
        return err_set(e, ERR_NOMEM, "bus: no memory for a message");
    int rc = wait_for_message((struct zmq_socket *)s, timeout_ms, h, e);
    if (rc != ERR_OK) {
        held_free(h);
        return rc;
    }
    *out = (struct bus_message){
        .bytes = part_str(&h->body), .peer = part_str(&h->peer), .owner = h, .release = held_free};
    return ERR_OK;
}

static int zmq_socket_fd(struct bus_socket *s)
{
    int fd = -1;
    size_t n = sizeof fd;
    zmq_getsockopt(((struct zmq_socket *)s)->handle, ZMQ_FD, &fd, &n);
    return fd;
}

static uint32_t zmq_sockets_poll(struct bus_socket *const *sockets, uint32_t n, int fd,
                                 int timeout_ms)
{
    zmq_pollitem_t item[BUS_MAX_POLL + 1];
    for (uint32_t i = 0; i < n; i++) {
        item[i] = (zmq_pollitem_t){.socket = ((struct zmq_socket *)sockets[i])->handle,
                                   .events = ZMQ_POLLIN};
    }
    item[n] = (zmq_pollitem_t){.fd = fd, .events = ZMQ_POLLIN};
    if (zmq_poll(item, (int)n + (fd >= 0), timeout_ms) <= 0)
        return 0;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < n + (fd >= 0); i++)
        mask |= item[i].revents ? (uint32_t)1 << i : 0;
    return mask;
}

static const struct bus_backend BACKEND = {
    .close = zmq_bus_close,
    .socket_open = zmq_socket_start,
    .socket_close = zmq_socket_end,
    .send = zmq_socket_send,
    .take = zmq_socket_take,
    .fd = zmq_socket_fd,
    .poll = zmq_sockets_poll,
};

int bus_open(struct bus **out, struct err *e)
{
    *out = NULL;
    struct zmq_bus *z = calloc(1, sizeof *z);
    if (!z)
        return err_set(e, ERR_NOMEM, "bus: no memory for a context");
    z->base.backend = &BACKEND;
    z->context = zmq_ctx_new();
    if (!z->context) {
        free(z);
        return err_set(e, ERR_IO, "bus: %s", zmq_strerror(zmq_errno()));
    }
    *out = &z->base;
    return ERR_OK;
}
