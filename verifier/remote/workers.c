/* Worker processes on pipes. A worker owns at most one job; whatever it does wrong (late, too much,
 * unasked, dead) costs that job and the process, never a neighbour. Loop thread only. */
#include "verifier/remote/workers.h"

#include "common/log.h"
#include "common/stop.h"
#include "verifier/remote/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RESTART_US = 100000, RESTART_MAX_US = 30000000, REAP_US = 20000, LATER_US = 1000000 };
enum { EXIT_NO_EXEC = 127, READ_BYTES = 64 * 1024, CONFIG_BYTES = 256 * 1024 };

struct worker {
    pid_t pid;     /* 0 = none */
    bool is_dying; /* killed, not yet reaped */
    int to, from;  /* its standard input and output */
    struct remote_job *job;
    struct mono deadline, start_at;
    size_t sent; /* bytes of the question and its newline */
    struct buf answer;
    uint64_t answers;
    uint32_t deaths; /* in a row, without an answer between */
};

struct workers {
    struct workers_config c;
    struct arena arena;
    struct worker *worker;
    uint32_t n;
    struct metric *starts;
    char *env[8];
};

static const char WORKER_DIED[] = "worker_died";

static int copy_texts(struct workers *w, struct err *e)
{
    static const char *const NAMES[] = {"PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH"};
    size_t n = 0, n_env = 0;
    while (w->c.argv[n])
        n++;
    const char **argv = arena_array(&w->arena, n + 1, sizeof *argv);
    for (size_t i = 0; argv && i < n; i++)
        argv[i] = arena_str(&w->arena, str_from(w->c.argv[i])).p;
    w->c.folder = arena_str(&w->arena, str_from(w->c.folder ? w->c.folder : "/")).p;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const char *value = getenv(NAMES[i]);
        if (value)
            w->env[n_env++] = (char *)arena_printf(&w->arena, "%s=%s", NAMES[i], value).p;
    }
    w->env[n_env] = NULL;
    w->c.argv = argv;
    return argv && w->c.folder ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for worker processes");
}

int workers_open(struct workers **out, const struct workers_config *c, struct err *e)
{
    *out = NULL;
    struct workers *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, ERR_NOMEM, "no memory for worker processes");
    w->c = *c;
    arena_init(&w->arena, CONFIG_BYTES);
    int rc = copy_texts(w, e);
    w->n = (uint32_t)c->count;
    w->worker = calloc(w->n, sizeof *w->worker);
    if (rc == ERR_OK && !w->worker)
        rc = err_set(e, ERR_NOMEM, "no memory for worker processes");
    if (rc != ERR_OK) {
        w->n = w->worker ? w->n : 0;
        workers_close(w);
        return rc;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        w->worker[i].to = w->worker[i].from = -1;
        buf_init(&w->worker[i].answer, c->max_answer_bytes);
    }
    signal(SIGPIPE, SIG_IGN); /* a worker that died is seen by what write returns */
    *out = w;
    return ERR_OK;
}

void workers_set_metrics(struct workers *w, struct metric *starts)
{
    w->starts = starts;
}

/* Between fork and exec: only async-signal-safe calls. */
static void run_child(const struct workers *w, int in, int out, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(w->c.folder) != 0)
        _exit(EXIT_NO_EXEC);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0u, 0); /* whatever a library opened without close-on-exec */
    struct rlimit none = {0, 0};
    struct rlimit memory = {(rlim_t)w->c.memory_mib << 20, (rlim_t)w->c.memory_mib << 20};
    setrlimit(RLIMIT_CORE, &none);
    if (w->c.memory_mib > 0)
        setrlimit(RLIMIT_AS, &memory);
    stop_reset_child();
    execvpe(w->c.argv[0], (char *const *)w->c.argv, w->env);
    _exit(EXIT_NO_EXEC);
}

static uint64_t pause_us(const struct worker *k)
{
    uint32_t shift = k->deaths < 9 ? k->deaths : 9;
    uint64_t us = (uint64_t)RESTART_US << shift;
    return us < RESTART_MAX_US ? us : RESTART_MAX_US;
}

static void start(struct workers *w, struct worker *k, struct mono now)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t parent = getpid();
    k->start_at.us = now.us + pause_us(k);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        goto failed;
    pid_t pid = fork();
    if (pid == 0)
        run_child(w, in[0], out[1], parent);
    if (pid < 0)
        goto failed;
    setpgid(pid, pid); /* whoever is first */
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    k->pid = pid;
    k->to = in[1];
    k->from = out[0];
    k->answers = 0;
    k->is_dying = false;
    buf_reset(&k->answer);
    if (w->starts)
        metric_inc(w->starts);
    return;
failed:
    log_event(LOG_WARN, "remote.worker", "program=%s error=\"%s\"", w->c.argv[0], strerror(errno));
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
}

static bool reap(struct workers *w, struct worker *k)
{
    int status = 0;
    pid_t got = waitpid(k->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        log_event(LOG_WARN, "remote.worker", "program=%s exit=%d", w->c.argv[0],
                  WEXITSTATUS(status));
    k->pid = 0;
    k->is_dying = false;
    return true;
}

static void end_process(struct workers *w, struct worker *k, struct mono now)
{
    if (k->pid == 0 || k->is_dying)
        return;
    kill(-k->pid, SIGKILL); /* its children too */
    kill(k->pid, SIGKILL);
    close(k->to);
    close(k->from);
    k->to = k->from = -1;
    k->is_dying = true;
    k->start_at.us = now.us + pause_us(k);
    reap(w, k);
}

/* The process did wrong; its job, if any, fails. */
static void give_up(struct workers *w, struct worker *k, const char *failure, struct mono now)
{
    struct remote_job *job = k->job;
    k->job = NULL;
    k->deaths++;
    end_process(w, k, now);
    if (job)
        lane_answered(job, failure, STR(""));
}

void workers_close(struct workers *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->n; i++) {
        struct worker *k = &w->worker[i];
        end_process(w, k, (struct mono){0});
        while (k->pid != 0 && !reap(w, k)) {
            struct timespec t = {.tv_nsec = 1000000};
            nanosleep(&t, NULL);
        }
        buf_free(&k->answer);
    }
    arena_free(&w->arena);
    free(w->worker);
    free(w);
}

void workers_abandon(struct workers *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        give_up(w, &w->worker[i], LANE_SHUTDOWN, (struct mono){0});
}

/* Writes what the pipe takes now. */
static void write_question(struct workers *w, struct worker *k, struct mono now)
{
    const struct str q = k->job->question;
    while (k->sent <= q.n) {
        struct str rest = k->sent < q.n ? str_slice(q, k->sent, q.n) : STR("\n");
        ssize_t n = write(k->to, rest.p, rest.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            give_up(w, k, WORKER_DIED, now);
            return;
        }
        k->sent += (size_t)n;
    }
}

bool workers_start(struct workers *w, struct remote_job *job, struct mono deadline, struct mono now)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct worker *k = &w->worker[i];
        if (k->pid == 0 || k->is_dying || k->job)
            continue;
        k->job = job;
        k->deadline = deadline;
        k->sent = 0;
        (void)now;
        return true; /* written by the next workers_run, which the loop calls before it waits */
    }
    return false;
}

/* A whole line is there: the answer, if one was asked for, and nothing after it. */
static void take_line(struct workers *w, struct worker *k, size_t at, struct mono now)
{
    struct remote_job *job = k->job;
    struct str line = str_slice(buf_str(&k->answer), 0, at);
    bool is_clean = at + 1 == k->answer.n && job && k->sent > job->question.n;
    if (!is_clean) { /* talks unasked or too much: which answer belongs to which is lost */
        give_up(w, k, "malformed_answer", now);
        return;
    }
    k->job = NULL;
    bool is_good = lane_answered(job, NULL, line);
    buf_reset(&k->answer);
    k->answers++;
    k->deaths = is_good ? 0 : k->deaths + 1;
    if (!is_good || (w->c.max_answers > 0 && k->answers >= (uint64_t)w->c.max_answers))
        end_process(w, k, is_good ? (struct mono){0} : now);
}

static void read_answer(struct workers *w, struct worker *k, struct mono now)
{
    char piece[READ_BYTES];
    for (;;) {
        ssize_t n = read(k->from, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            give_up(w, k, WORKER_DIED, now);
            return;
        }
        buf_put(&k->answer, piece, (size_t)n);
        if (k->answer.failed) {
            give_up(w, k, LANE_TOO_LARGE, now);
            return;
        }
        const char *end = memchr(k->answer.p, '\n', k->answer.n);
        if (end) {
            take_line(w, k, (size_t)(end - k->answer.p), now);
            return;
        }
    }
}

static struct mono run_one(struct workers *w, struct worker *k, struct mono now)
{
    if (k->is_dying && !reap(w, k))
        return (struct mono){now.us + REAP_US};
    if (k->pid == 0 && k->start_at.us <= now.us)
        start(w, k, now);
    if (k->pid == 0)
        return k->start_at;
    if (k->job && k->deadline.us <= now.us)
        give_up(w, k, LANE_TIMEOUT, now);
    if (k->job && k->sent <= k->job->question.n)
        write_question(w, k, now);
    if (k->pid != 0 && !k->is_dying)
        read_answer(w, k, now);
    if (k->pid == 0 || k->is_dying)
        return (struct mono){now.us + REAP_US};
    return k->job ? k->deadline : (struct mono){now.us + LATER_US};
}

struct mono workers_run(struct workers *w, struct mono now)
{
    struct mono wake = {now.us + LATER_US};
    for (uint32_t i = 0; i < w->n; i++) {
        struct mono until = run_one(w, &w->worker[i], now);
        wake = until.us < wake.us ? until : wake;
    }
    return wake;
}

uint32_t workers_fds(const struct workers *w, struct pollfd *out, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n && n + 2 <= max; i++) {
        const struct worker *k = &w->worker[i];
        if (k->pid == 0 || k->is_dying)
            continue;
        out[n++] = (struct pollfd){.fd = k->from, .events = POLLIN};
        if (k->job && k->sent <= k->job->question.n)
            out[n++] = (struct pollfd){.fd = k->to, .events = POLLOUT};
    }
    return n;
}
