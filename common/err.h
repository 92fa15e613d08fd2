/* common/err.h - the one error type.
 *
 * A function that can fail returns an err_code as int, gives results by out-pointer and takes a
 * struct err last, which may be NULL. Thread-safe: no global state. */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <stdbool.h>
#include <stddef.h>

#define MUST_USE                __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

enum err_code {
    ERR_OK = 0,
    ERR_NOMEM,
    ERR_INVALID,
    ERR_NOT_FOUND,
    ERR_BUSY,
    ERR_TIMEOUT,
    ERR_CANCELLED,
    ERR_IO,
    ERR_CORRUPT,
    ERR_CONFLICT,
    ERR_DEVICE,
    ERR_UNSUPPORTED,
    ERR_BUG,
    ERR_COUNT
};

struct err {
    enum err_code code;
    int sys_errno; /* errno at the failing call, 0 when none */
    char msg[240]; /* for a person: where, what was found, what is allowed, what to do */
};

/* What the rest of the system does with a code: API status, retry decision, metric label. */
struct err_info {
    const char *label;
    int http_status;
    bool is_retryable;
};

/* Never NULL; unknown codes read as ERR_BUG. */
const struct err_info *err_info(int code);

/* err_set(e, code, fmt, ...): sets code and message, gives the code, so that callers can
 * `return err_set(...)`. err_set_sys(e, code, errno, fmt, ...) keeps errno and appends its text.
 * Macros only so that the compiler sees which code comes back (and that it is not ERR_OK). */
#define err_set(e, code, ...) err_known(err_write((e), (code), __VA_ARGS__), (code))
#define err_set_sys(e, code, sys, ...)                                                             \
    err_known(err_write_sys((e), (code), (sys), __VA_ARGS__), (code))
int err_write(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_write_sys(struct err *e, enum err_code code, int sys_errno, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static inline int err_known(int written, enum err_code code)
{
    (void)written;
    return code;
}

/* Puts "context: " before the message, keeps the code, returns it. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Runs a call that returns an err_code; on failure keeps it in `rc` and goes to `out`. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((rc = (call)) != ERR_OK)                                                               \
            goto out;                                                                              \
    } while (0)

#endif
