/* verifier/sandbox/sandbox.h - one program in a child that can harm nobody.
 *
 * The child has no network, starts no process, writes no file, reads only what the system's
 * programs need, and ends with its parent. CPU time, wall time, memory and output are bounded. When
 * the kernel lacks a part of this, nothing is run. One process, one thread: sandbox_run forks. */
#ifndef VERIFIER_SANDBOX_SANDBOX_H
#define VERIFIER_SANDBOX_SANDBOX_H

#include "common/buf.h"

enum sandbox_end {
    SANDBOX_EXITED,      /* code = exit code */
    SANDBOX_SIGNALLED,   /* code = signal */
    SANDBOX_CPU_TIME,    /* used up its CPU time */
    SANDBOX_WALL_TIME,   /* did not end in time */
    SANDBOX_OUTPUT,      /* wrote more than allowed */
    SANDBOX_NO_PROGRAM,  /* cannot be executed */
    SANDBOX_UNAVAILABLE, /* this kernel cannot confine it: nothing was run */
};

struct sandbox_job {
    const char *const *argv;     /* NULL-terminated, argv[0] a path */
    const char *const *readable; /* folders besides the system's, NULL-terminated; may be NULL */
    struct str input;            /* its standard input */
    uint32_t cpu_seconds, wall_ms;
    size_t memory_bytes; /* address space */
    size_t output_bytes; /* standard output and error together */
};

struct sandbox_result {
    enum sandbox_end end;
    int code;
    struct buf output; /* of both; freed by the caller */
};

/* Blocks until the program has ended and is reaped. ERR_IO, ERR_NOMEM: it could not be started. */
MUST_USE int sandbox_run(const struct sandbox_job *job, struct sandbox_result *r, struct err *e);
/* False: *why says what this kernel lacks (a literal). */
bool sandbox_is_available(const char **why);

/* confine.c: in the child, before exec. A negative number names the step that failed. */
int confine_self(const struct sandbox_job *job, int parent_pid);

#endif
