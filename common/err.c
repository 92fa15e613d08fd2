/* The error table and message formatting. Messages are cut at the buffer's end, never overrun. */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct err_info TABLE[ERR_COUNT] = {
    [ERR_OK] = {"ok", 200, false},
    [ERR_NOMEM] = {"out_of_memory", 503, true},
    [ERR_INVALID] = {"invalid", 400, false},
    [ERR_NOT_FOUND] = {"not_found", 404, false},
    [ERR_BUSY] = {"busy", 503, true},
    [ERR_TIMEOUT] = {"timeout", 504, true},
    [ERR_CANCELLED] = {"cancelled", 499, false},
    [ERR_IO] = {"io", 500, true},
    [ERR_CORRUPT] = {"corrupt", 500, false},
    [ERR_CONFLICT] = {"conflict", 409, false},
    [ERR_DEVICE] = {"device", 500, false},
    [ERR_UNSUPPORTED] = {"unsupported", 400, false},
    [ERR_BUG] = {"bug", 500, false},
};

const struct err_info *err_info(int code)
{
    return &TABLE[code >= 0 && code < ERR_COUNT ? code : ERR_BUG];
}

static void err_format(struct err *e, enum err_code code, const char *fmt, va_list args)
{
    e->code = code;
    e->sys_errno = 0;
    vsnprintf(e->msg, sizeof e->msg, fmt, args);
}

int err_write(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e) {
        va_list args;
        va_start(args, fmt);
        err_format(e, code, fmt, args);
        va_end(args);
    }
    return code;
}

int err_write_sys(struct err *e, enum err_code code, int sys_errno, const char *fmt, ...)
{
    if (e) {
        va_list args;
        va_start(args, fmt);
        err_format(e, code, fmt, args);
        va_end(args);
        e->sys_errno = sys_errno;
        size_t used = strlen(e->msg);
        snprintf(e->msg + used, sizeof e->msg - used, ": %s", strerror(sys_errno));
    }
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return ERR_BUG;
    char context[sizeof e->msg];
    char joined[2 * sizeof e->msg + 4];
    va_list args;
    va_start(args, fmt);
    vsnprintf(context, sizeof context, fmt, args);
    va_end(args);
    snprintf(joined, sizeof joined, "%s: %s", context, e->msg);
    memcpy(e->msg, joined, sizeof e->msg - 1);
    e->msg[sizeof e->msg - 1] = '\0';
    return e->code;
}
