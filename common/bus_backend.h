/* common/bus_backend.h - what a transport must offer to bus.c; for bus*.c only.
 *
 * bus.c checks options and addresses once for all transports, then calls through this table. A
 * transport embeds struct bus and struct bus_socket as first members of its own. */
#ifndef COMMON_BUS_BACKEND_H
#define COMMON_BUS_BACKEND_H

#include "common/bus.h"

enum { BUS_ADDRESS_BYTES = 256, BUS_DEFAULT_HIGH_WATER = 1000, BUS_MAX_POLL = 31 };

struct bus_backend {
    void (*close)(struct bus *b);
    int (*socket_open)(struct bus_socket **out, struct bus *b, const struct bus_options *o,
                       struct err *e);
    void (*socket_close)(struct bus_socket *s);
    int (*send)(struct bus_socket *s, struct str peer, struct str message, struct err *e);
    int (*take)(struct bus_socket *s, int timeout_ms, struct bus_message *out, struct err *e);
    int (*fd)(struct bus_socket *s);
    uint32_t (*poll)(struct bus_socket *const *sockets, uint32_t n, int fd, int timeout_ms);
};

struct bus {
    const struct bus_backend *backend;
};

struct bus_socket {
    const struct bus_backend *backend;
    enum bus_kind kind;
    char address[BUS_ADDRESS_BYTES]; /* as bound, or as given */
};

/* Next address of the comma separated list into out; false at the end. Spaces are trimmed. */
bool bus_next_address(const char **rest, char out[BUS_ADDRESS_BYTES]);

#endif
