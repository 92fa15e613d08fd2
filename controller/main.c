/* milepost-controller: reads the configuration, opens the database, runs the writer's loop on one
 * thread and HTTP on this one.
 *
 * Exit codes: 0 done, 1 failed while running (or replay differs), 2 usage or configuration. */
#include "common/bus_keys.h"
#include "common/db.h"
#include "common/io.h"
#include "common/log.h"
#include "common/program.h"
#include "common/rng.h"
#include "common/stop.h"
#include "controller/api.h"
#include "controller/replay.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BODY_BYTES = 1024 * 1024, MAX_HEADER_BYTES = 32 * 1024, MAX_CONNECTIONS = 256 };
enum { IDLE_MS = 60000, SLOW_READER_BYTES = 64 * 1024 * 1024, STOP_GRACE_MS = 2000 };

static int replay(const struct program *p, const char *database)
{
    struct replay_report r;
    struct err e = {0};
    if (replay_run(database, &r, &e) != ERR_OK)
        return program_end(p, e.code, PROGRAM_FAILED, &e);
    printf("%llu rows, %llu events, %llu decisions on %llu routes: %s\n",
           (unsigned long long)r.n_rows, (unsigned long long)r.n_events,
           (unsigned long long)r.n_decisions, (unsigned long long)r.n_routes,
           r.agrees ? "the same decisions" : r.difference);
    return r.agrees ? PROGRAM_OK : PROGRAM_FAILED;
}

/* The parts of a running controller, in the order in which they are opened. */
struct parts {
    struct bus *bus;
    struct bus_keys keys;
    struct metrics *metrics;
    struct board *board;
    struct http_server *server;
    struct loop *loop;
    struct api *api;
    int loop_rc;
    struct err loop_error; /* when loop_rc is not ERR_OK; may hold old news otherwise */
};

static void stop_server(void *ctx)
{
    http_server_stop(ctx, STOP_GRACE_MS);
}

static void on_signal(int fd, void *ctx)
{
    if (stop_read(fd))
        stop_server(ctx);
}

static void *run_loop(void *ctx)
{
    struct parts *p = ctx;
    p->loop_rc = loop_run(p->loop, &p->loop_error);
    if (p->loop_rc != ERR_OK)
        http_server_post(p->server, stop_server, p->server);
    return NULL;
}

static int open_http(const struct milepost_config *c, struct parts *p, struct arena *a,
                     struct err *e)
{
    struct http_server_config hc = {.host = arena_str(a, c->controller.host).p,
                                    .port = (uint16_t)c->controller.port,
                                    .max_body_bytes = MAX_BODY_BYTES,
                                    .max_header_bytes = MAX_HEADER_BYTES,
                                    .max_connections = MAX_CONNECTIONS,
                                    .idle_timeout_ms = IDLE_MS,
                                    .slow_reader_bytes = SLOW_READER_BYTES,
                                    .error_body = api_error_body};
    return http_server_open(&p->server, &hc, e);
}

static int make_folder_of(const char *path, struct arena *a, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return ERR_OK;
    struct str folder = arena_str(a, (struct str){path, (size_t)(slash - path)});
    return folder.p ? io_make_dir(folder.p, e) : err_set(e, ERR_NOMEM, "no memory for a path");
}

/* A start may take minutes: a signal ends it between two rows. Not read here, only looked at. */
static bool is_stop_asked(void *stop_fd)
{
    struct pollfd p = {.fd = *(int *)stop_fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static int open_parts(const struct milepost_config *c, struct parts *p, struct arena *a,
                      int stop_fd, struct err *e)
{
    const struct db_stop stop = {is_stop_asked, &stop_fd};
    struct bus_security security = {0};
    struct str key = {0};
    const char *database = milepost_config_path(c, c->controller.database, a);
    p->metrics = metrics_new();
    p->board = board_new();
    int rc = database && p->board ? ERR_OK : err_set(e, ERR_NOMEM, "no memory to start");
    if (rc == ERR_OK)
        rc = milepost_config_key(c->controller.admin_key_file, "MILEPOST_ADMIN_KEY", a, &key, e);
    if (rc == ERR_OK)
        rc = make_folder_of(database, a, e);
    if (rc == ERR_OK)
        rc = bus_keys_load(c->loop.curve_dir, true, &p->keys, &security, e);
    if (rc == ERR_OK)
        rc = bus_open(&p->bus, e);
    if (rc == ERR_OK)
        rc = open_http(c, p, a, e);
    struct loop_options lo = {.config = c,
                              .database = database,
                              .bus = p->bus,
                              .scores = arena_str(a, c->loop.scores).p,
                              .control = arena_str(a, c->loop.control).p,
                              .security = security,
                              .metrics = p->metrics,
                              .board = p->board,
                              .clock = CLOCK_REAL,
                              .seed = rng_entropy(),
                              .stop = &stop,
                              .version = MILEPOST_VERSION};
    if (rc == ERR_OK)
        rc = loop_open(&p->loop, &lo, e);
    struct api_options ao = {.server = p->server,
                             .loop = p->loop,
                             .board = p->board,
                             .metrics = p->metrics,
                             .config = c,
                             .database = database,
                             .admin_key = key};
    if (rc == ERR_OK)
        rc = api_open(&p->api, &ao, e);
    return rc == ERR_OK ? http_server_watch(p->server, stop_fd, on_signal, p->server, e) : rc;
}

static void close_parts(struct parts *p)
{
    loop_close(p->loop);
    api_close(p->api);
    http_server_close(p->server);
    bus_close(p->bus);
    board_free(p->board);
    metrics_free(p->metrics);
}

static int serve(const struct milepost_config *c, struct arena *a, struct err *e)
{
    struct parts p = {0};
    pthread_t thread;
    int stop_fd = -1;
    int rc = stop_setup(&stop_fd, e);
    if (rc == ERR_OK)
        rc = open_parts(c, &p, a, stop_fd, e);
    if (rc == ERR_CANCELLED && stop_read(stop_fd)) {
        log_event(LOG_INFO, "controller.start_stopped",
                  "why=\"asked to stop; nothing is lost, the next start goes on\"");
        close_parts(&p);
        return ERR_OK;
    }
    if (rc == ERR_OK && pthread_create(&thread, NULL, run_loop, &p) != 0)
        rc = err_set(e, ERR_NOMEM, "cannot start a thread");
    if (rc == ERR_OK) {
        log_event(LOG_INFO, "controller.ready", "port=%u scores=%s control=%s",
                  http_server_port(p.server), loop_scores_address(p.loop),
                  loop_control_address(p.loop));
        http_server_run(p.server);
        loop_stop(p.loop);
        pthread_join(thread, NULL);
        rc = p.loop_rc;
        if (rc != ERR_OK)
            *e = p.loop_error;
    }
    close_parts(&p);
    log_event(LOG_INFO, "controller.stopped", "code=%d", rc);
    return rc;
}

static int check_policies(const struct milepost_config *c, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < c->routes.n; i++) {
        struct policy_settings s;
        const struct route_config *r = (const struct route_config *)c->routes.item + i;
        if (policy_settings_from_route(r, &s, e) != ERR_OK)
            rc = err_wrap(e, "routes[%u].policy", i);
    }
    return rc;
}

static int run(const struct program *p, struct arena *a)
{
    struct err e = {0};
    struct milepost_config c;
    enum log_level level = LOG_INFO;
    int rc = milepost_config_load(p->config, p->set.item, p->set.n, a, &c, &e);
    if (rc == ERR_OK && p->is_print)
        return program_end(p, program_print_config(&MILEPOST_CONFIG, &c, &e), PROGRAM_FAILED, &e);
    if (rc == ERR_OK)
        rc = check_policies(&c, &e);
    if (rc != ERR_OK)
        return program_end(p, rc, PROGRAM_USAGE, &e);
    if (p->is_check) {
        printf("the configuration is good\n");
        return PROGRAM_OK;
    }
    log_level_parse(c.log_level, &level);
    log_setup("controller", level);
    db_setup();
    return program_end(p, serve(&c, a, &e), PROGRAM_FAILED, &e);
}

int main(int argc, char **argv)
{
    const char *database = NULL;
    const struct opt own[] = {{"replay", 'r', OPT_TEXT, &database, 0, 0, "DATABASE",
                               "recompute every decision from the rows, compare, exit"}};
    struct program p = {.name = "milepost-controller",
                        .usage = "[options]",
                        .about = "Commits scores, decides, and tells engines what to serve.",
                        .opt = own,
                        .n_opt = 1};
    int code = program_begin(&p, argc, argv);
    if (code != PROGRAM_CONTINUE)
        return code;
    if (database)
        return replay(&p, database);
    struct arena a;
    arena_init(&a, 64 * MiB);
    code = run(&p, &a);
    arena_free(&a);
    return code;
}
