/* Children through fork, exec and pidfds, so that one poll() waits for signals and deaths alike.
 *
 * Between fork and exec only async-signal-safe calls. Debian 12 has kernel 6.1: pidfd_open is
 * there since 5.3. */
#include "controller/cli/process.h"

#include "common/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NO_EXEC = 127 };

static void run_child(const char *const *argv, int log_fd, pid_t parent)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_NO_EXEC); /* the parent died before the line above */
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    if (log_fd >= 0) {
        dup2(log_fd, STDOUT_FILENO);
        dup2(log_fd, STDERR_FILENO);
    }
    stop_reset_child();
    execv(argv[0], (char *const *)argv);
    _exit(EXIT_NO_EXEC);
}

int process_start(struct process *p, const char *const *argv, const char *log_path, struct err *e)
{
    pid_t parent = getpid();
    int log_fd = -1;

    *p = (struct process){0, -1};
    if (access(argv[0], X_OK) != 0)
        return err_set_sys(e, ERR_IO, errno, "cannot run %s", argv[0]);
    if (log_path != NULL) {
        log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (log_fd < 0)
            return err_set_sys(e, ERR_IO, errno, "cannot write the log %s", log_path);
    }
    pid_t pid = fork();
    if (pid == 0)
        run_child(argv, log_fd, parent);
    int fork_errno = errno;
    if (log_fd >= 0)
        close(log_fd);
    if (pid < 0)
        return err_set_sys(e, ERR_IO, fork_errno, "cannot fork for %s", argv[0]);
    p->pid = pid;
    p->fd = pidfd_open(pid, 0);
    if (p->fd >= 0)
        return ERR_OK;
    int rc = err_set_sys(e, ERR_IO, errno, "pidfd of %s", argv[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    p->pid = 0;
    return rc;
}

bool process_wait(struct process *p, int timeout_ms, int *status)
{
    struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};
    int got = 0;

    if (p->pid == 0)
        return true;
    if (poll(&poll_fd, 1, timeout_ms) <= 0)
        return false;
    if (waitpid(p->pid, &got, 0) < 0 && errno == EINTR)
        return false;
    close(p->fd);
    *p = (struct process){0, -1};
    if (status != NULL)
        *status = got;
    return true;
}

void process_signal(const struct process *p, int signal_number)
{
    if (p->pid > 0)
        kill(p->pid, signal_number);
}

bool process_stop(struct process *p, int grace_ms)
{
    if (p->pid == 0)
        return true;
    process_signal(p, SIGTERM);
    if (process_wait(p, grace_ms, NULL))
        return true;
    process_signal(p, SIGKILL);
    while (!process_wait(p, -1, NULL)) {
    }
    return false;
}

void process_describe(int status, char *out, size_t cap)
{
    if (WIFSIGNALED(status))
        snprintf(out, cap, "killed by SIG%s",
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    else if (WEXITSTATUS(status) == EXIT_NO_EXEC)
        snprintf(out, cap, "could not be executed");
    else
        snprintf(out, cap, "exit code %d", WEXITSTATUS(status));
}
