/* Wiring. The calling thread waits for the signal to stop; the pipeline has its own threads and
 * sends what it holds before it ends. */
#include "verifier/service.h"

#include "common/bus_keys.h"
#include "common/log.h"
#include "common/stop.h"
#include "verifier/http.h"
#include "verifier/pipeline.h"

#include <poll.h>
#include <unistd.h>

enum {
    STOP_GRACE_MS = 3000,
};

struct service {
    struct metrics *metrics;
    struct str id, key;
    const struct service_sets *sets;
};

int service_open_sets(const struct milepost_config *c, struct arena *a, struct service_sets *out,
                      struct err *e)
{
    const struct route_config *route = c->routes.item;
    *out = (struct service_sets){.set = arena_array(a, c->routes.n + 1, sizeof *out->set)};
    int rc = out->set ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for %u routes", c->routes.n);
    for (uint32_t i = 0; i < c->routes.n && rc == ERR_OK; i++) {
        rc = check_set_open(&out->set[i], &route[i], e);
        out->n += rc == ERR_OK;
    }
    if (rc != ERR_OK)
        service_close_sets(out);
    return rc;
}

void service_close_sets(struct service_sets *sets)
{
    for (uint32_t i = 0; i < sets->n; i++)
        check_set_close(sets->set[i]);
    sets->n = 0;
}

/* As the engine warns of its own address. */
static void warn_if_open(const struct milepost_config *c, struct str key)
{
    struct str host = c->verifier.host;
    bool is_loopback =
        str_starts(host, STR("127.")) || str_eq_c(host, "localhost") || str_eq_c(host, "::1");
    if (!is_loopback && key.n == 0)
        log_event(LOG_WARN, "verify.open_to_network",
                  "host=" STR_FMT
                  " hint=\"anyone who reaches this address can use POST /score: set "
                  "verifier.api_key_file or MILEPOST_API_KEY\"",
                  STR_ARG(host));
}

static int open_http(const struct service *s, const struct milepost_config *c,
                     const struct pipeline_config *pc, struct arena *a, struct verifier_http **out,
                     struct err *e)
{
    warn_if_open(c, s->key);
    const struct crew_config crew = {.judge = pc->judge,
                                     .remote = pc->remote,
                                     .workers = pc->workers,
                                     .max_queue = pc->max_queue,
                                     .max_frame_bytes = 16 * MiB};
    return verifier_http_open(out, arena_str(a, c->verifier.host).p, (uint16_t)c->verifier.port,
                              s->key, s->metrics, &crew, e);
}

/* The thread that asks what is remote, when a check needs it. */
static int open_remote(const struct service *s, struct remote **out, struct err *e)
{
    int rc = remote_open(out, s->metrics, e);
    for (uint32_t i = 0; i < s->sets->n && rc == ERR_OK; i++)
        rc = check_set_attach(s->sets->set[i], *out, e);
    return rc;
}

/* Blocks until a signal asks for the end. */
static void wait_for_stop(int stop_fd)
{
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    int signal_number;
    while ((signal_number = stop_read(stop_fd)) == 0)
        (void)!poll(&p, 1, -1);
    log_event(LOG_INFO, "verify.stop", "signal=%d", signal_number);
}

/* "host:port" when the configuration names no verifier. */
static struct str verifier_id(const struct milepost_config *c, struct arena *a)
{
    char host[128] = "verifier";
    if (c->verifier.id.n)
        return c->verifier.id;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    return arena_printf(a, "%s:%lld", host, (long long)c->verifier.port);
}

static struct pipeline_config pipeline_config(const struct service *s,
                                              const struct milepost_config *c,
                                              struct bus *const bus[2], struct arena *a)
{
    return (struct pipeline_config){
        .outputs = arena_str(a, c->loop.outputs).p,
        .scores = arena_str(a, c->loop.scores).p,
        .judge = {.verifier = s->id,
                  .set = s->sets->set,
                  .n_set = s->sets->n,
                  .clock = &CLOCK_REAL},
        .workers = (uint32_t)c->verifier.threads,
        .max_queue = (uint32_t)c->verifier.max_queue,
        .bus = bus[0],
        .large_bus = bus[1],
        .metrics = s->metrics,
    };
}

int service_run(const struct milepost_config *c, const struct service_sets *sets, int stop_fd,
                struct arena *a, struct err *e)
{
    struct service s = {.metrics = metrics_new(), .id = verifier_id(c, a), .sets = sets};
    struct bus *bus[2] = {NULL, NULL};
    struct bus_keys keys;
    struct bus_security security = {0};
    struct remote *remote = NULL;
    struct pipeline *pipeline = NULL;
    struct verifier_http *http = NULL;
    int rc = bus_keys_load(c->loop.curve_dir, false, &keys, &security, e);
    if (rc == ERR_OK)
        rc = milepost_config_key(c->verifier.api_key_file, "MILEPOST_API_KEY", a, &s.key, e);
    if (rc == ERR_OK)
        rc = bus_open(&bus[0], e);
    if (rc == ERR_OK)
        rc = bus_open(&bus[1], e);
    if (rc == ERR_OK)
        rc = open_remote(&s, &remote, e);
    struct pipeline_config pc = {0};
    if (rc == ERR_OK) {
        pc = pipeline_config(&s, c, bus, a);
        pc.security = security;
        pc.remote = remote;
        rc = pc.outputs && pc.scores && s.id.p ? pipeline_start(&pipeline, &pc, e)
                                               : err_set(e, ERR_NOMEM, "no memory for addresses");
    }
    if (rc == ERR_OK)
        rc = open_http(&s, c, &pc, a, &http, e);
    if (rc == ERR_OK) {
        log_event(LOG_INFO, "verify.ready", "id=" STR_FMT " routes=%u", STR_ARG(s.id), sets->n);
        wait_for_stop(stop_fd);
    }
    pipeline_stop(pipeline, STOP_GRACE_MS);
    verifier_http_close(http, 0);
    remote_close(remote);
    bus_close(bus[0]);
    bus_close(bus[1]);
    metrics_free(s.metrics);
    return rc;
}
