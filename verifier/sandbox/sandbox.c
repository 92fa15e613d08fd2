/* Starts the confined child, feeds and reads it, ends it at its limits. A pipe that exec closes
 * tells a confinement that failed from a program that ran. One thread. */
#include "verifier/sandbox/sandbox.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 16 * 1024, EXIT_NOT_STARTED = 125 };
enum { STDIN, STDOUT, STATUS, N_PIPES };

struct child {
    pid_t pid;
    int in, out, status; /* our ends */
    struct mono deadline;
    size_t written;
    bool is_done; /* it closed its outputs */
};

static int open_pipes(int p[N_PIPES][2], struct err *e)
{
    for (int i = 0; i < N_PIPES; i++)
        p[i][0] = p[i][1] = -1;
    for (int i = 0; i < N_PIPES; i++)
        if (pipe2(p[i], O_CLOEXEC) != 0)
            return err_set_sys(e, ERR_IO, errno, "pipes of a sandbox");
    return ERR_OK;
}

static void close_pipes(int p[N_PIPES][2])
{
    for (int i = 0; i < N_PIPES; i++) {
        close(p[i][0]);
        close(p[i][1]);
    }
}

static void run_child(const struct sandbox_job *job, int p[N_PIPES][2], pid_t parent)
{
    static char *const ENV[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    sigset_t none;
    char step;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    setsid();
    dup2(p[STDIN][0], STDIN_FILENO);
    dup2(p[STDOUT][1], STDOUT_FILENO);
    dup2(p[STDOUT][1], STDERR_FILENO);
    int status = p[STATUS][1];
    close_range(STDERR_FILENO + 1, (unsigned)status - 1, 0);
    close_range((unsigned)status + 1, ~0u, 0);
    int failed = chdir("/") != 0 ? -1 : confine_self(job, parent);
    if (failed == 0) {
        execve(job->argv[0], (char *const *)job->argv, ENV);
        failed = 1;
    }
    step = (char)failed;
    (void)!write(status, &step, 1);
    _exit(EXIT_NOT_STARTED);
}

static int start(const struct sandbox_job *job, struct child *c, struct err *e)
{
    int p[N_PIPES][2];
    pid_t parent = getpid();
    int rc = open_pipes(p, e);
    pid_t pid = rc == ERR_OK ? fork() : -1;
    if (pid == 0)
        run_child(job, p, parent);
    if (rc == ERR_OK && pid < 0)
        rc = err_set_sys(e, ERR_IO, errno, "fork of a sandbox");
    if (rc != ERR_OK) {
        close_pipes(p);
        return rc;
    }
    close(p[STDIN][0]);
    close(p[STDOUT][1]);
    close(p[STATUS][1]);
    fcntl(p[STDIN][1], F_SETFL, O_NONBLOCK);
    fcntl(p[STDOUT][0], F_SETFL, O_NONBLOCK);
    *c = (struct child){.pid = pid,
                        .in = p[STDIN][1],
                        .out = p[STDOUT][0],
                        .status = p[STATUS][0],
                        .deadline = {clock_mono(&CLOCK_REAL).us + job->wall_ms * 1000ull}};
    return ERR_OK;
}

static void feed(const struct sandbox_job *job, struct child *c)
{
    ssize_t n = 0;
    if (c->in < 0)
        return;
    while (c->written < job->input.n &&
           (n = write(c->in, job->input.p + c->written, job->input.n - c->written)) > 0)
        c->written += (size_t)n;
    if (c->written == job->input.n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close(c->in);
        c->in = -1;
    }
}

/* False: too much. */
static bool drain(struct child *c, struct buf *output)
{
    char piece[PIECE];
    for (;;) {
        ssize_t n = read(c->out, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            c->is_done = n == 0;
            return true;
        }
        buf_put(output, piece, (size_t)n);
        if (output->failed)
            return false;
    }
}

/* Until it closed its outputs, or a limit. */
static enum sandbox_end attend(const struct sandbox_job *job, struct child *c, struct buf *output)
{
    while (!c->is_done) {
        uint64_t left_us = mono_since_us(clock_mono(&CLOCK_REAL), c->deadline);
        if (left_us == 0)
            return SANDBOX_WALL_TIME;
        struct pollfd fds[2] = {{.fd = c->out, .events = POLLIN}, {.fd = c->in, .events = POLLOUT}};
        poll(fds, 2, (int)(left_us / 1000 + 1));
        feed(job, c);
        if (!drain(c, output))
            return SANDBOX_OUTPUT;
    }
    return SANDBOX_EXITED;
}

/* It closed its outputs: gone, or going, or still computing in silence. */
static int reap(struct child *c, enum sandbox_end *end)
{
    int status = 0;
    while (*end == SANDBOX_EXITED && waitpid(c->pid, &status, WNOHANG) == 0) {
        if (mono_since_us(clock_mono(&CLOCK_REAL), c->deadline) == 0)
            *end = SANDBOX_WALL_TIME;
        poll(NULL, 0, 1);
    }
    if (*end == SANDBOX_EXITED)
        return status;
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void judge_end(const struct child *c, int status, struct sandbox_result *r)
{
    char step = 0;
    if (read(c->status, &step, 1) == 1) {
        r->end = step > 0 ? SANDBOX_NO_PROGRAM : SANDBOX_UNAVAILABLE;
        r->code = step;
    } else if (r->end == SANDBOX_EXITED && WIFSIGNALED(status)) {
        bool is_cpu = WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL;
        r->end = is_cpu ? SANDBOX_CPU_TIME : SANDBOX_SIGNALLED;
        r->code = WTERMSIG(status);
    } else {
        r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }
}

int sandbox_run(const struct sandbox_job *job, struct sandbox_result *r, struct err *e)
{
    struct child c;
    const char *why;
    *r = (struct sandbox_result){.end = SANDBOX_UNAVAILABLE};
    buf_init(&r->output, job->output_bytes);
    if (!sandbox_is_available(&why))
        return ERR_OK;
    int rc = start(job, &c, e);
    if (rc != ERR_OK)
        return rc;
    r->end = attend(job, &c, &r->output);
    judge_end(&c, reap(&c, &r->end), r);
    if (c.in >= 0)
        close(c.in);
    close(c.out);
    close(c.status);
    return ERR_OK;
}
