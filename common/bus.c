/* The transport-independent half of the bus: checks addresses and options, then hands over.
 *
 * The rule that matters here: a tcp address that is not loopback needs CURVE, else anyone on the
 * network could read prompts and forge scores (DESIGN.md section 9). Any thread may open; a socket
 * belongs to one thread. */
#include "common/bus_backend.h"

#include <poll.h>
#include <string.h>

bool bus_next_address(const char **rest, char out[BUS_ADDRESS_BYTES])
{
    struct str all = str_from(*rest), piece;
    while (all.p && all.n && str_split(&all, ',', &piece)) {
        *rest = all.p ? all.p : "";
        piece = str_trim(piece);
        if (!piece.n)
            continue;
        size_t n = piece.n < BUS_ADDRESS_BYTES ? piece.n : BUS_ADDRESS_BYTES - 1;
        memcpy(out, piece.p, n);
        out[n] = 0;
        return true;
    }
    return false;
}

/* Host part of tcp://[interface;]host:port. */
static struct str tcp_host(struct str address)
{
    struct str s = str_slice(address, 6, address.n);
    size_t end = s.n;
    while (end && s.p[end - 1] != ':')
        end--;
    s = str_slice(s, 0, end ? end - 1 : s.n);
    ptrdiff_t semicolon = str_find(s, STR(";"), 0);
    return semicolon < 0 ? s : str_slice(s, (size_t)semicolon + 1, s.n);
}

static bool is_loopback(struct str host)
{
    if (str_eq_c(host, "localhost") || str_eq_c(host, "[::1]") || str_eq_c(host, "::1"))
        return true;
    /* "127." and digits and dots: a name such as 127.0.0.1.example.org is not an address. */
    if (!str_starts(host, STR("127.")))
        return false;
    for (size_t i = 0; i < host.n; i++) {
        if (host.p[i] != '.' && (host.p[i] < '0' || host.p[i] > '9'))
            return false;
    }
    return true;
}

static bool has_curve(const struct bus_security *s)
{
    return s->server_secret.n || (s->server_public.n && s->secret_key.n);
}

static int check_address(const char *text, const struct bus_options *o, struct err *e)
{
    struct str address = str_from(text);
    if (address.n >= BUS_ADDRESS_BYTES - 1)
        return err_set(e, ERR_INVALID, "bus address longer than %d bytes", BUS_ADDRESS_BYTES - 2);
    if (str_starts(address, STR("ipc://")) || str_starts(address, STR("inproc://")))
        return ERR_OK;
    if (!str_starts(address, STR("tcp://"))) {
        return err_set(e, ERR_INVALID,
                       "bus address '%s': allowed are tcp://HOST:PORT and ipc://PATH", text);
    }
    if (is_loopback(tcp_host(address)) || has_curve(&o->security))
        return ERR_OK;
    return err_set(e, ERR_INVALID,
                   "bus address '%s' is not loopback and CURVE keys are not given: anyone on the "
                   "network could read and forge messages; use 127.0.0.1, ipc:// or set keys",
                   text);
}

static int check_keys(const struct bus_security *s, struct err *e)
{
    const struct str keys[] = {s->server_public, s->server_secret, s->public_key, s->secret_key};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].n && keys[i].n != 40) {
            return err_set(e, ERR_INVALID, "bus: a CURVE key has %zu characters; a Z85 key has 40",
                           keys[i].n);
        }
    }
    return ERR_OK;
}

int bus_socket_open(struct bus_socket **out, struct bus *b, const struct bus_options *o,
                    struct err *e)
{
    *out = NULL;
    int rc = check_keys(&o->security, e);
    const char *rest = o->address;
    char address[BUS_ADDRESS_BYTES];
    uint32_t n = 0;
    while (rc == ERR_OK && bus_next_address(&rest, address)) {
        rc = check_address(address, o, e);
        n++;
    }
    if (rc == ERR_OK && n == 0)
        rc = err_set(e, ERR_INVALID, "bus: no address given");
    return rc == ERR_OK ? b->backend->socket_open(out, b, o, e) : rc;
}

void bus_close(struct bus *b)
{
    if (b)
        b->backend->close(b);
}

void bus_socket_close(struct bus_socket *s)
{
    if (s)
        s->backend->socket_close(s);
}

int bus_send(struct bus_socket *s, struct str peer, struct str message, struct err *e)
{
    return s->backend->send(s, peer, message, e);
}

int bus_take(struct bus_socket *s, int timeout_ms, struct bus_message *out, struct err *e)
{
    *out = (struct bus_message){0};
    return s->backend->take(s, timeout_ms, out, e);
}

void bus_message_free(struct bus_message *m)
{
    if (m->release)
        m->release(m->owner);
    *m = (struct bus_message){0};
}

int bus_receive(struct bus_socket *s, int timeout_ms, struct buf *peer, struct buf *message,
                struct err *e)
{
    struct bus_message m;
    buf_reset(message);
    if (peer)
        buf_reset(peer);
    int rc = bus_take(s, timeout_ms, &m, e);
    if (rc != ERR_OK)
        return rc;
    buf_put_str(message, m.bytes);
    if (peer)
        buf_put_str(peer, m.peer);
    bus_message_free(&m);
    return buf_check(message, "bus: message", e);
}

int bus_socket_fd(struct bus_socket *s)
{
    return s->backend->fd(s);
}

const char *bus_socket_address(const struct bus_socket *s)
{
    return s->address;
}

uint32_t bus_poll(struct bus_socket *const *sockets, uint32_t n, int fd, int timeout_ms)
{
    if (n > BUS_MAX_POLL)
        n = BUS_MAX_POLL;
    if (n)
        return sockets[0]->backend->poll(sockets, n, fd, timeout_ms);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) > 0 ? 1 : 0;
}
