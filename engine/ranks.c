/* Starting the other ranks and seeing them off. Between fork and exec only async-signal-safe calls.
 */
#include "engine/ranks.h"

#include "common/log.h"
#include "common/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 300, END_MS = 3000, EXIT_NO_EXEC = 127 };

struct ranks {
    struct comm *comm;
    uint32_t size;
    pid_t pid[COMM_MAX_RANKS]; /* 0: none */
};

static void run_child(char *const *argv, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_NO_EXEC);
    stop_reset_child();
    signal(SIGINT, SIG_IGN); /* rank 0 says when it is over */
    signal(SIGTERM, SIG_IGN);
    execv("/proc/self/exe", argv);
    _exit(EXIT_NO_EXEC);
}

static int start_one(struct ranks *r, uint32_t rank, char *const *argv, const char *id,
                     struct err *e)
{
    char rank_text[32], id_text[COMM_ID_BYTES + 16];
    char *args[MAX_ARGS];
    size_t n = 0;
    for (; argv[n]; n++) {
        if (n >= MAX_ARGS - 3)
            return err_set(e, ERR_INVALID, "ranks: at most %d arguments", MAX_ARGS - 3);
        args[n] = argv[n];
    }
    snprintf(rank_text, sizeof rank_text, "--rank=%u", rank);
    snprintf(id_text, sizeof id_text, "--group=%s", id);
    args[n++] = rank_text;
    args[n++] = id_text;
    args[n] = NULL;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_child(args, parent);
    if (pid < 0)
        return err_set_sys(e, ERR_IO, errno, "ranks: no process for rank %u", rank);
    r->pid[rank] = pid;
    return ERR_OK;
}

int ranks_start(struct ranks **out, uint32_t size, char *const *argv, struct err *e)
{
    char id[COMM_ID_BYTES];
    int rc;
    *out = NULL;
    struct ranks *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "ranks");
    r->size = size;
    TRY(COMM_SHM.make_id(size, id, e));
    for (uint32_t i = 1; i < size; i++)
        TRY(start_one(r, i, argv, id, e));
    TRY(COMM_SHM.join(&r->comm, id, 0, size, e));
    log_event(LOG_INFO, "engine.ranks", "n=%u", size);
    *out = r;
    return ERR_OK;
out:
    ranks_close(r);
    return rc;
}

static void end_one(pid_t pid)
{
    int fd = pidfd_open(pid, 0), status = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd < 0 || poll(&p, 1, END_MS) != 1)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (fd >= 0)
        close(fd);
    if (status != 0)
        log_event(LOG_WARN, "engine.rank_ended", "pid=%d status=%d", (int)pid, status);
}

void ranks_close(struct ranks *r)
{
    if (!r)
        return;
    if (r->comm)
        r->comm->ops->abort(r->comm, "the engine has ended");
    for (uint32_t i = 1; i < r->size; i++)
        if (r->pid[i])
            end_one(r->pid[i]);
    if (r->comm)
        r->comm->ops->leave(r->comm);
    free(r);
}

struct comm *ranks_comm(const struct ranks *r)
{
    return r ? r->comm : NULL;
}

void ranks_take_cores(const struct comm *c, cpu_set_t *old)
{
    cpu_set_t mine;
    int n = 0, at = 0;
    CPU_ZERO(old);
    if (!c || sched_getaffinity(0, sizeof *old, old) != 0)
        return;
    n = CPU_COUNT(old);
    int from = (int)(n * (int)c->rank / (int)c->size), to = n * ((int)c->rank + 1) / (int)c->size;
    CPU_ZERO(&mine);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, old) && at++ >= from && at <= to)
            CPU_SET(core, &mine);
    if (to > from)
        (void)sched_setaffinity(0, sizeof mine, &mine);
}

void ranks_restore_cores(const struct comm *c, const cpu_set_t *old)
{
    if (c && CPU_COUNT(old) > 0)
        (void)sched_setaffinity(0, sizeof *old, old);
}
