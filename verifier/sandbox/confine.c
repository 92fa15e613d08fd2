/* What the child gives up before exec, in this order: its user (when root), its limits, new
 * privileges, the file system (Landlock), system calls (seccomp).
 *
 * System calls are denied by default. What is left cannot make a process, a socket, a file, or
 * reach another process: signals only to itself, fcntl and ioctl by a list. See landlock(7),
 * seccomp(2). */
#include "verifier/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than the headers of Debian 12 (kernel 6.1); masked by what the kernel's version knows. */
#define ACCESS_FS_TRUNCATE  (1ULL << 14) /* version 3 */
#define ACCESS_FS_IOCTL_DEV (1ULL << 15) /* version 5 */
enum { NOBODY = 65534, OPEN_FILES = 64, ABI_TRUNCATE = 3, ABI_IOCTL = 5 };
enum { FILTER_MAX = 4096 }; /* instructions; the kernel's own limit */

#define READS                                                                                      \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
static const struct {
    const char *path;
    uint64_t access;
} PATHS[] = {
    {"/usr", READS},
    {"/lib", READS},
    {"/lib64", READS},
    {"/bin", READS},
    {"/etc/ld.so.cache", LANDLOCK_ACCESS_FS_READ_FILE},
    {"/etc/localtime", LANDLOCK_ACCESS_FS_READ_FILE},
    {"/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE},
    {"/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE},
};

static const int PLAIN_CALLS[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(fstat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(lseek),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getdents),
    SCMP_SYS(getdents64),
    SCMP_SYS(getcwd),
    SCMP_SYS(chdir),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(mprotect),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrandom),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getgroups),
    SCMP_SYS(getpgrp),
    SCMP_SYS(getrlimit),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(umask),
    SCMP_SYS(execve),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(wait4),
};

#define EQ(arg, value) SCMP_CMP(arg, SCMP_CMP_EQ, (scmp_datum_t)(value), 0)

static int drop_user(void)
{
    if (geteuid() != 0)
        return 0;
    return setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
           setresuid(NOBODY, NOBODY, NOBODY);
}

static int set_limit(int what, size_t value)
{
    const struct rlimit limit = {value, value};
    return setrlimit((__rlimit_resource_t)what, &limit);
}

static int set_limits(const struct sandbox_job *job)
{
    const struct rlimit cpu = {job->cpu_seconds, job->cpu_seconds + 1};
    return setrlimit(RLIMIT_CPU, &cpu) || set_limit(RLIMIT_AS, job->memory_bytes) ||
           set_limit(RLIMIT_FSIZE, 0) || set_limit(RLIMIT_CORE, 0) ||
           set_limit(RLIMIT_NOFILE, OPEN_FILES) || set_limit(RLIMIT_MEMLOCK, 0) ||
           set_limit(RLIMIT_MSGQUEUE, 0);
}

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* Every right the kernel can handle is handled, so all that no rule grants is denied. */
static uint64_t handled_rights(long version)
{
    uint64_t all = LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1; /* version 1: bits 0 to 12 */
    if (version >= 2)
        all |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= ABI_TRUNCATE)
        all |= ACCESS_FS_TRUNCATE;
    if (version >= ABI_IOCTL)
        all |= ACCESS_FS_IOCTL_DEV;
    return all;
}

static int allow_path(int ruleset, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access,
                                              .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent_fd < 0)
        return errno == ENOENT ? 0 : -1;
    long rc = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return (int)rc;
}

static int restrict_files(const struct sandbox_job *job)
{
    const struct landlock_ruleset_attr attr = {.handled_access_fs =
                                                   handled_rights(landlock_version())};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    int rc = ruleset < 0;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS && rc == 0; i++)
        rc = allow_path(ruleset, PATHS[i].path, PATHS[i].access);
    for (const char *const *p = job->readable; p && *p && rc == 0; p++)
        rc = allow_path(ruleset, *p, READS);
    if (rc == 0)
        rc = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return rc;
}

static int allow(scmp_filter_ctx c, int call, unsigned n, struct scmp_arg_cmp a)
{
    return seccomp_rule_add_array(c, SCMP_ACT_ALLOW, call, n, &a);
}

static int allow_values(scmp_filter_ctx c, int call, unsigned arg, const unsigned long *value,
                        size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = allow(c, call, 1, EQ(arg, value[i]));
    return rc;
}

/* Calls that are harmless with some arguments only. */
static int allow_some(scmp_filter_ctx c)
{
    static const unsigned long FCNTL[] = {F_DUPFD, F_GETFD, F_SETFD,
                                          F_GETFL, F_SETFL, F_DUPFD_CLOEXEC};
    static const unsigned long IOCTL[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX};
    static const int TO_SELF[] = {SCMP_SYS(kill), SCMP_SYS(tgkill)};
    int rc = allow_values(c, SCMP_SYS(fcntl), 1, FCNTL, sizeof FCNTL / sizeof *FCNTL);
    if (rc == 0)
        rc = allow_values(c, SCMP_SYS(ioctl), 1, IOCTL, sizeof IOCTL / sizeof *IOCTL);
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = allow(c, TO_SELF[i], 1, EQ(0, getpid()));
    if (rc == 0) /* only reading limits */
        rc = allow(c, SCMP_SYS(prlimit64), 1, EQ(2, 0));
    if (rc == 0)
        rc = allow(c, SCMP_SYS(prctl), 1, EQ(0, PR_SET_NAME));
    if (rc == 0) /* threads yes, processes no */
        rc = allow(c, SCMP_SYS(clone), 1,
                   SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    if (rc == 0) /* its flags cannot be looked at: glibc then uses clone */
        rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return rc;
}

/* The filter as the kernel takes it. Made before the limits, since making it needs memory. */
static int make_filter(struct sock_filter *code, struct sock_fprog *out)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int fd = memfd_create("filter", MFD_CLOEXEC);
    int rc = c && fd >= 0 ? 0 : -1;
    for (size_t i = 0; i < sizeof PLAIN_CALLS / sizeof *PLAIN_CALLS && rc == 0; i++)
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, PLAIN_CALLS[i], 0);
    if (rc == 0)
        rc = allow_some(c);
    if (rc == 0)
        rc = seccomp_export_bpf(c, fd);
    ssize_t n = rc == 0 ? pread(fd, code, FILTER_MAX * sizeof *code, 0) : -1;
    seccomp_release(c);
    close(fd);
    if (n <= 0 || (size_t)n == FILTER_MAX * sizeof *code)
        return -1;
    *out = (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof *code), .filter = code};
    return 0;
}

int confine_self(const struct sandbox_job *job, int parent_pid)
{
    if (drop_user() != 0)
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
    if (getppid() != parent_pid)      /* it died before the line above */
        return -1;
    struct sock_filter code[FILTER_MAX];
    struct sock_fprog filter;
    if (make_filter(code, &filter) != 0)
        return -2;
    if (set_limits(job) != 0)
        return -3;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return -4;
    if (restrict_files(job) != 0)
        return -5;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 ? 0 : -6;
}

bool sandbox_is_available(const char **why)
{
    *why = "";
    if (landlock_version() < 1)
        *why = "no Landlock in this kernel";
    else if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        *why = "no seccomp in this kernel";
    return **why == '\0';
}
