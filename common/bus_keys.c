/* Reads CURVE keys. The secret half never appears in a message or a log. */
#include "common/bus_keys.h"

#include "common/io.h"

#include <stdio.h>
#include <string.h>

static int read_key(struct str folder, const char *name, char out[41], struct err *e)
{
    char path[512];
    struct buf b;
    if (snprintf(path, sizeof path, STR_FMT "/%s", STR_ARG(folder), name) >= (int)sizeof path)
        return err_set(e, ERR_INVALID, "loop.curve_dir: longer than 500 bytes");
    buf_init(&b, 4 * KiB);
    int rc = io_read_file(path, &b, e);
    struct str key = str_trim(buf_str(&b));
    if (rc == ERR_OK && key.n != 40)
        rc = err_set(e, ERR_INVALID, "%s: has %zu characters; a Z85 key has 40", path, key.n);
    if (rc == ERR_OK) {
        memcpy(out, key.p, 40);
        out[40] = 0;
    }
    buf_free(&b);
    return rc;
}

int bus_keys_load(struct str folder, bool binds, struct bus_keys *keys, struct bus_security *out,
                  struct err *e)
{
    *keys = (struct bus_keys){0};
    *out = (struct bus_security){0};
    if (folder.n == 0)
        return ERR_OK;
    int rc = read_key(folder, "server.public", keys->server_public, e);
    if (rc == ERR_OK && binds)
        rc = read_key(folder, "server.secret", keys->server_secret, e);
    if (rc == ERR_OK && !binds)
        rc = read_key(folder, "client.public", keys->client_public, e);
    if (rc == ERR_OK && !binds)
        rc = read_key(folder, "client.secret", keys->client_secret, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct bus_security){.server_public = str_from(keys->server_public),
                                 .server_secret = str_from(keys->server_secret),
                                 .public_key = str_from(keys->client_public),
                                 .secret_key = str_from(keys->client_secret)};
    return ERR_OK;
}
