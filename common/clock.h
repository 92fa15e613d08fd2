/* common/clock.h - time as a passed-in dependency, so that simulation and replay run the same code.
 *
 * mono: for intervals inside one process. wall: for records people read. Never compare mono values
 * of two processes. Thread-safe. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

struct mono {
    uint64_t us;
};
struct wall {
    int64_t us; /* since 1970-01-01 UTC */
};

struct clock {
    struct mono (*mono)(void *ctx);
    struct wall (*wall)(void *ctx);
    void *ctx;
};

extern const struct clock CLOCK_REAL;

struct mono clock_mono(const struct clock *c);
struct wall clock_wall(const struct clock *c);
/* b - a, 0 when b is before a. */
uint64_t mono_since_us(struct mono a, struct mono b);
/* CPU time of the calling thread, 0 when it cannot be had: for budgets of work, so that a busy
 * machine does not turn into timeouts. */
uint64_t clock_cpu_us(void);

/* A clock that only moves when told. ctx of the clock it gives is the fake itself. */
struct fake_clock {
    struct mono now;
    struct wall wall_now;
};
struct clock fake_clock_as_clock(struct fake_clock *f);
void fake_clock_advance(struct fake_clock *f, uint64_t us);

/* "2026-01-31T12:34:56.789Z" into out[32]. */
void wall_format(struct wall w, char out[32]);

#endif
