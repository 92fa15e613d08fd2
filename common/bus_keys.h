/* common/bus_keys.h - CURVE keys of the three processes from one folder.
 *
 * Files, one Z85 key of 40 characters each: server.public, server.secret (processes that bind),
 * client.public, client.secret (processes that connect). An empty folder name = no keys. */
#ifndef COMMON_BUS_KEYS_H
#define COMMON_BUS_KEYS_H

#include "common/bus.h"

struct bus_keys {
    char server_public[41], server_secret[41], client_public[41], client_secret[41];
};

/* binds: read the server's pair, else the server's public key and the client's pair. *out borrows
 * from *keys. ERR_IO, ERR_INVALID name the file. Blocking. */
MUST_USE int bus_keys_load(struct str folder, bool binds, struct bus_keys *keys,
                           struct bus_security *out, struct err *e);

#endif
