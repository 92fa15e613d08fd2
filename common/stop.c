/* signalfd: stopping is an event like any other, no handler runs in the middle of anything. */
#include "common/stop.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

int stop_setup(int *fd, struct err *e)
{
    sigset_t set = stop_signals();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a full disk: an error, not the end */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_set_sys(e, ERR_IO, errno, "blocking signals");
    *fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return *fd < 0 ? err_set_sys(e, ERR_IO, errno, "signalfd") : ERR_OK;
}

int stop_read(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void stop_reset_child(void)
{
    sigset_t set = stop_signals();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}
