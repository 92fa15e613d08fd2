/* Checks before the start, so that a busy port or a read-only folder is one clear sentence and not
 * three logs. The children check again: these answers can be out of date a moment later. */
#include "controller/cli/preflight.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

int preflight_state(struct cli *c, int *lock_fd, struct err *e)
{
    const char *logs = milepost_config_path(&c->config, STR("log"), &c->arena);
    const char *lock = milepost_config_path(&c->config, STR("up.lock"), &c->arena);

    *lock_fd = -1;
    if (logs == NULL || lock == NULL)
        return err_set(e, ERR_NOMEM, "paths of the state folder");
    if (io_make_dir(logs, e) != ERR_OK)
        return err_wrap(e, "state_dir");
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno,
                           "cannot write %s; is state_dir read-only, or another user's?", lock);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(e, ERR_CONFLICT,
                       "another 'milepost up' uses this state folder (%s is locked); stop it, or "
                       "choose another with --state-dir",
                       lock);
    }
    *lock_fd = fd;
    return ERR_OK;
}

static int try_port(struct str host, int64_t port, const char *key, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char name[256], service[24];
    int one = 1, failed = 0;

    snprintf(name, sizeof name, STR_FMT, STR_ARG(host));
    snprintf(service, sizeof service, "%lld", (long long)port);
    if (port == 0 || getaddrinfo(name[0] ? name : NULL, service, &hints, &list) != 0)
        return ERR_OK; /* the process itself will say it better */
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        failed = bind(fd, list->ai_addr, list->ai_addrlen) != 0 ? errno : 0;
        if (failed == 0 && listen(fd, 1) != 0)
            failed = errno;
        close(fd);
    }
    freeaddrinfo(list);
    if (failed == EADDRINUSE)
        return err_set(e, ERR_CONFLICT,
                       "port %lld on %s is in use by another program; stop it, or choose another "
                       "port with --set %s=N",
                       (long long)port, name, key);
    if (failed == EACCES || failed == EADDRNOTAVAIL)
        return err_set_sys(e, ERR_IO, failed, "cannot listen on %s port %lld (%s)", name,
                           (long long)port, key);
    return ERR_OK;
}

int preflight_ports(struct cli *c, bool engine, bool loop, struct err *e)
{
    const struct milepost_config *g = &c->config;
    int rc = ERR_OK;

    if (engine)
        rc = try_port(g->engine.host, g->engine.port, "engine.port", e);
    if (rc == ERR_OK && loop)
        rc = try_port(g->verifier.host, g->verifier.port, "verifier.port", e);
    if (rc == ERR_OK && loop)
        rc = try_port(g->controller.host, g->controller.port, "controller.port", e);
    return rc;
}

int preflight_model(struct cli *c, struct err *e)
{
    struct str model = c->config.engine.model;
    struct str path = arena_str(&c->arena, model);

    if (model.n == 0)
        return err_set(e, ERR_INVALID,
                       "no model given: --model FILE, or engine.model in the configuration "
                       "(deploy/fetch_model.sh fetches the default one and prints its path)");
    if (path.p == NULL || access(path.p, R_OK) != 0)
        return err_set_sys(e, ERR_NOT_FOUND, errno, "cannot read the model file " STR_FMT,
                           STR_ARG(model));
    return ERR_OK;
}

int preflight_free_port(char out[16], struct err *e)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, n) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &n) == 0;
    int failed = errno;

    if (fd >= 0)
        close(fd);
    if (!ok)
        return err_set_sys(e, ERR_IO, failed, "no free port on 127.0.0.1");
    snprintf(out, 16, "%u", ntohs(address.sin_port));
    return ERR_OK;
}
