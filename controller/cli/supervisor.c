/* The three processes as children: one poll() over the stop signal and three pidfds.
 *
 * Invariant: a child that has ended is waited for before anything else happens to its slot. Logs
 * go to state_dir/log/NAME.log; what a person should know is also printed on stderr. */
#include "controller/cli/supervisor.h"

#include "common/clock.h"
#include "common/http_client.h"
#include "common/io.h"
#include "common/stop.h"
#include "controller/cli/preflight.h"
#include "controller/cli/process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BACKOFF_FIRST_MS = 500,
    BACKOFF_MAX_MS = 30000,
    STABLE_AFTER_MS = 60000,
    HEALTH_TIMEOUT_MS = 1000,
    HEALTH_EVERY_MS = 100,
    LOG_TAIL_BYTES = 1500
};

struct child {
    const char *name;
    struct process process;
    const char *argv[PROCESS_MAX_ARGS];
    const char *log_path, *health_url;
    size_t log_from; /* what the present process wrote begins here */
    bool is_wanted, is_ready;
    uint64_t backoff_ms;
    struct mono started, restart_at;
};

struct supervisor {
    struct cli *cli;
    struct supervisor_options options;
    struct child child[SUP_COUNT];
    int stop_fd, lock_fd;
};

static const char *const NAMES[SUP_COUNT] = {"controller", "verifier", "engine"};

static struct mono now(void)
{
    return clock_mono(&CLOCK_REAL);
}

static bool is_wanted(const struct supervisor *s, enum supervised i)
{
    struct str rest = str_from(s->options.only), name;

    if (s->options.only == NULL)
        return i == SUP_ENGINE || s->cli->config.loop.enabled;
    while (str_split(&rest, ',', &name))
        if (str_eq_c(str_trim(name), NAMES[i]))
            return true;
    return false;
}

static int check_names(const char *only, struct err *e)
{
    struct str rest = str_from(only), name;

    while (str_split(&rest, ',', &name)) {
        bool is_known = false;
        for (int i = 0; i < SUP_COUNT; i++)
            is_known = is_known || str_eq_c(str_trim(name), NAMES[i]);
        if (!is_known)
            return err_set(e, ERR_INVALID,
                           "--only: '" STR_FMT "' is none of controller, verifier, engine",
                           STR_ARG(name));
    }
    return ERR_OK;
}

static int set_argv(struct supervisor *s, struct child *ch, struct err *e)
{
    struct cli *c = s->cli;
    struct str program = arena_printf(&c->arena, "milepost-%s", ch->name);
    size_t n = 0;

    if (program.p == NULL || cli_sibling(c, program.p, &ch->argv[n++], e) != ERR_OK)
        return err_wrap(e, "%s", ch->name);
    if (c->config_path != NULL) {
        ch->argv[n++] = "--config";
        ch->argv[n++] = c->config_path;
    }
    for (size_t i = 0; i < c->set.n; i++) {
        ch->argv[n++] = "--set";
        ch->argv[n++] = c->set.item[i];
    }
    ch->argv[n] = NULL;
    return ERR_OK;
}

static int set_child(struct supervisor *s, enum supervised i, struct err *e)
{
    const struct milepost_config *g = &s->cli->config;
    struct child *ch = &s->child[i];
    const char *base[SUP_COUNT] = {cli_controller_url(s->cli),
                                   cli_url(s->cli, NULL, g->verifier.host, g->verifier.port),
                                   cli_engine_url(s->cli)};
    struct str log = arena_printf(&s->cli->arena, "log/%s.log", NAMES[i]);

    ch->name = NAMES[i];
    ch->process = (struct process){0, -1};
    ch->backoff_ms = BACKOFF_FIRST_MS;
    ch->is_wanted = is_wanted(s, i);
    ch->log_path = milepost_config_path(g, log, &s->cli->arena);
    ch->health_url = arena_printf(&s->cli->arena, "%s/health", base[i]).p;
    if (ch->log_path == NULL || ch->health_url == NULL)
        return err_set(e, ERR_NOMEM, "paths of %s", NAMES[i]);
    return ch->is_wanted ? set_argv(s, ch, e) : ERR_OK;
}

static size_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
}

static int start_child(struct child *ch, struct err *e)
{
    ch->is_ready = false;
    ch->started = now();
    ch->log_from = size_of(ch->log_path);
    return process_start(&ch->process, ch->argv, ch->log_path, e);
}

int supervisor_open(struct supervisor **out, struct cli *c, const struct supervisor_options *o,
                    struct err *e)
{
    struct supervisor *s = calloc(1, sizeof *s);
    int rc;

    *out = NULL;
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "supervisor");
    s->cli = c;
    s->options = *o;
    s->lock_fd = s->stop_fd = -1;
    if (o->only != NULL)
        TRY(check_names(o->only, e));
    TRY(stop_setup(&s->stop_fd, e));
    for (enum supervised i = 0; i < SUP_COUNT; i++)
        TRY(set_child(s, i, e));
    TRY(preflight_state(c, &s->lock_fd, e));
    TRY(preflight_ports(c, s->child[SUP_ENGINE].is_wanted, s->child[SUP_CONTROLLER].is_wanted, e));
    if (s->child[SUP_ENGINE].is_wanted)
        TRY(preflight_model(c, e));
    for (enum supervised i = 0; i < SUP_COUNT; i++)
        if (s->child[i].is_wanted)
            TRY(start_child(&s->child[i], e));
    *out = s;
    return ERR_OK;
out:
    supervisor_close(s);
    return rc;
}

/* A child died: say so, and when it comes back. */
static void note_death(struct child *ch, int status)
{
    char how[64];

    process_describe(status, how, sizeof how);
    if (mono_since_us(ch->started, now()) / 1000 > STABLE_AFTER_MS)
        ch->backoff_ms = BACKOFF_FIRST_MS;
    ch->restart_at = (struct mono){now().us + ch->backoff_ms * 1000};
    fprintf(stderr, "milepost: %s ended (%s); restart in %.1f s, log %s\n", ch->name, how,
            (double)ch->backoff_ms / 1000, ch->log_path);
    ch->backoff_ms = ch->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : ch->backoff_ms * 2;
    ch->is_ready = false;
}

/* Waits for the stop signal or a death. ERR_CANCELLED, or the index of the dead child by *dead. */
static int wait_event(struct supervisor *s, int timeout_ms, int *dead, int *status, struct err *e)
{
    struct pollfd fd[SUP_COUNT + 1] = {{.fd = s->stop_fd, .events = POLLIN}};

    *dead = -1;
    for (int i = 0; i < SUP_COUNT; i++)
        fd[i + 1] = (struct pollfd){.fd = s->child[i].process.fd, .events = POLLIN};
    if (poll(fd, SUP_COUNT + 1, timeout_ms) <= 0)
        return ERR_OK;
    if (fd[0].revents != 0 && stop_read(s->stop_fd) != 0)
        return err_set(e, ERR_CANCELLED, "stopped by a signal");
    for (int i = 0; i < SUP_COUNT; i++) {
        struct child *ch = &s->child[i];
        if (ch->process.pid != 0 && process_wait(&ch->process, 0, status)) {
            *dead = i;
            return ERR_OK;
        }
    }
    return ERR_OK;
}

static bool answers_health(struct supervisor *s, const struct child *ch)
{
    struct http_call call = {.url = ch->health_url,
                             .connect_timeout_ms = HEALTH_TIMEOUT_MS,
                             .timeout_ms = HEALTH_TIMEOUT_MS};
    struct http_result r = {0};

    if (s->cli->http == NULL && http_client_open(&s->cli->http, NULL) != ERR_OK)
        return false;
    bool ok = http_client_call(s->cli->http, &call, &r, NULL) == ERR_OK && r.status == 200;
    http_result_free(&r);
    return ok;
}

static int died_early(const struct child *ch, int status, struct err *e)
{
    char how[64];
    struct buf log;
    int code = WIFEXITED(status) && WEXITSTATUS(status) == CLI_USAGE ? ERR_INVALID : ERR_IO;

    process_describe(status, how, sizeof how);
    buf_init(&log, 64 * MiB);
    if (io_read_file(ch->log_path, &log, NULL) == ERR_OK) {
        size_t from = log.n > LOG_TAIL_BYTES ? log.n - LOG_TAIL_BYTES : 0;
        from = from > ch->log_from ? from : ch->log_from;
        struct str tail = str_trim(str_slice(buf_str(&log), from, log.n));
        fprintf(stderr, "--- end of %s\n" STR_FMT "\n---\n", ch->log_path, STR_ARG(tail));
    }
    buf_free(&log);
    return err_set(e, code, "%s did not start: %s; its log is %s", ch->name, how, ch->log_path);
}

static bool all_ready(struct supervisor *s)
{
    bool all = true;

    for (int i = 0; i < SUP_COUNT; i++) {
        struct child *ch = &s->child[i];
        if (!ch->is_wanted || ch->is_ready)
            continue;
        ch->is_ready = answers_health(s, ch);
        all = all && ch->is_ready;
        if (ch->is_ready)
            fprintf(stderr, "milepost: %s is ready after %.1f s\n", ch->name,
                    (double)mono_since_us(ch->started, now()) / 1e6);
    }
    return all;
}

int supervisor_wait_ready(struct supervisor *s, struct err *e)
{
    struct mono from = now();
    int dead, status = 0;

    while (!all_ready(s)) {
        int rc = wait_event(s, HEALTH_EVERY_MS, &dead, &status, e);
        if (rc != ERR_OK)
            return rc;
        if (dead >= 0)
            return died_early(&s->child[dead], status, e);
        if (mono_since_us(from, now()) / 1000 > (uint64_t)s->options.start_timeout_ms)
            return err_set(e, ERR_TIMEOUT,
                           "not everything answers after %d s; see the logs in %s (a new version "
                           "brings a large database up to date first, which takes minutes: "
                           "--start-timeout)",
                           s->options.start_timeout_ms / 1000, s->child[0].log_path);
    }
    return ERR_OK;
}

/* Time until the next restart is due, at most timeout_ms; restarts what is due. */
static int restart_due(struct supervisor *s, int timeout_ms)
{
    struct err e = {0};

    for (int i = 0; i < SUP_COUNT; i++) {
        struct child *ch = &s->child[i];
        if (!ch->is_wanted || ch->process.pid != 0)
            continue;
        uint64_t left_ms = mono_since_us(now(), ch->restart_at) / 1000;
        if (left_ms > 0) {
            timeout_ms = (int)left_ms < timeout_ms ? (int)left_ms : timeout_ms;
            continue;
        }
        if (start_child(ch, &e) != ERR_OK) {
            fprintf(stderr, "milepost: %s\n", e.msg);
            ch->restart_at = (struct mono){now().us + BACKOFF_MAX_MS * 1000ULL};
        } else {
            fprintf(stderr, "milepost: %s restarted\n", ch->name);
        }
    }
    return timeout_ms > 0 ? timeout_ms : 1;
}

int supervisor_run(struct supervisor *s, int timeout_ms, struct err *e)
{
    struct mono from = now();
    uint64_t spent_ms = 0;

    while (spent_ms <= (uint64_t)timeout_ms) {
        int dead, status = 0;
        int wait_ms = restart_due(s, timeout_ms - (int)spent_ms);
        int rc = wait_event(s, wait_ms, &dead, &status, e);
        if (rc != ERR_OK)
            return rc;
        if (dead >= 0)
            note_death(&s->child[dead], status);
        spent_ms = mono_since_us(from, now()) / 1000;
    }
    return ERR_OK;
}

/* Up to grace_ms for one child; a further signal ends the patience with all. */
static void stop_child(struct supervisor *s, struct child *ch, bool *is_hurried)
{
    struct mono from = now();

    if (ch->process.pid == 0)
        return;
    process_signal(&ch->process, SIGTERM);
    while (!*is_hurried && !process_wait(&ch->process, 50, NULL)) {
        *is_hurried = s->stop_fd >= 0 && stop_read(s->stop_fd) != 0;
        if (mono_since_us(from, now()) / 1000 > (uint64_t)s->options.grace_ms)
            break;
    }
    if (ch->process.pid != 0 && !process_stop(&ch->process, *is_hurried ? 0 : 100))
        fprintf(stderr, "milepost: %s had to be killed\n", ch->name);
}

void supervisor_close(struct supervisor *s)
{
    bool is_hurried = false;

    if (s == NULL)
        return;
    for (int i = SUP_COUNT - 1; i >= 0; i--)
        stop_child(s, &s->child[i], &is_hurried);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    free(s);
}
