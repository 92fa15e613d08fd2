/* Lines are built in a local buffer and leave in one write, so that threads never interleave.
 * The only mutable state is the set-up (written once before threads) and the rate counters. */
#include "common/log.h"

#include "common/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RATE_SLOTS = 64 };

struct rate {
    const char *event;
    int64_t second;
    unsigned count;
};

static const char *const LEVEL_NAMES[] = {"debug", "info", "warn", "error"};

static struct {
    const char *process;
    enum log_level least;
    pthread_mutex_t lock;
    struct rate rates[RATE_SLOTS];
} state = {"-", LOG_INFO, PTHREAD_MUTEX_INITIALIZER, {{0}}};

void log_setup(const char *process, enum log_level least)
{
    state.process = process;
    state.least = least;
}

bool log_level_parse(struct str s, enum log_level *out)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        if (str_eq_c(s, LEVEL_NAMES[i])) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* True when the line may leave; *suppressed = how many of the last second did not. Event names
 * are literals, so their address identifies them. */
static bool rate_allows(const char *event, int64_t second, unsigned *suppressed)
{
    *suppressed = 0;
    pthread_mutex_lock(&state.lock);
    struct rate *r = &state.rates[((uintptr_t)event >> 3) % RATE_SLOTS];
    if (r->event != event || r->second != second) {
        if (r->event == event && r->count > LOG_BURST)
            *suppressed = r->count - LOG_BURST;
        *r = (struct rate){event, second, 0};
    }
    bool allows = ++r->count <= LOG_BURST;
    pthread_mutex_unlock(&state.lock);
    return allows;
}

static size_t clamp_used(int n, size_t used, size_t cap)
{
    size_t total = used + (n > 0 ? (size_t)n : 0);
    return total < cap ? total : cap - 1;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level < state.least)
        return;
    struct wall now = clock_wall(&CLOCK_REAL);
    unsigned suppressed;
    if (!rate_allows(event, now.us / 1000000, &suppressed))
        return;
    char ts[32], line[2048];
    wall_format(now, ts);
    size_t cap = sizeof line - 1;
    size_t used = clamp_used(snprintf(line, cap, "ts=%s lvl=%s proc=%s ev=%s ", ts,
                                      LEVEL_NAMES[level], state.process, event),
                             0, cap);
    va_list args;
    va_start(args, fmt);
    used = clamp_used(vsnprintf(line + used, cap - used, fmt, args), used, cap);
    va_end(args);
    if (suppressed)
        used =
            clamp_used(snprintf(line + used, cap - used, " suppressed=%u", suppressed), used, cap);
    for (size_t i = 0; i < used; i++) /* one event, one line, whatever a text from outside holds */
        line[i] = (unsigned char)line[i] < 0x20 ? ' ' : line[i];
    line[used++] = '\n';
    (void)!write(STDERR_FILENO, line, used);
}

const char *log_quote(struct str s, char *out, size_t cap)
{
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < s.n && n + 4 < cap; i++) {
        char c = s.p[i];
        if (c == '"' || c == '\\')
            out[n++] = '\\';
        out[n++] = (unsigned char)c < 0x20 ? ' ' : c;
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}
