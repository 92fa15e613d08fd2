/* Real and fake clocks. */
#include "common/clock.h"

#include <stdio.h>
#include <time.h>
#include <stddef.h>

static int64_t read_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct mono real_mono(void *ctx)
{
    (void)ctx;
    return (struct mono){(uint64_t)read_us(CLOCK_MONOTONIC)};
}

static struct wall real_wall(void *ctx)
{
    (void)ctx;
    return (struct wall){read_us(CLOCK_REALTIME)};
}

const struct clock CLOCK_REAL = {real_mono, real_wall, NULL};

struct mono clock_mono(const struct clock *c)
{
    return c->mono(c->ctx);
}

struct wall clock_wall(const struct clock *c)
{
    return c->wall(c->ctx);
}

uint64_t mono_since_us(struct mono a, struct mono b)
{
    return b.us > a.us ? b.us - a.us : 0;
}

uint64_t clock_cpu_us(void)
{
    return (uint64_t)read_us(CLOCK_THREAD_CPUTIME_ID);
}

static struct mono fake_mono(void *ctx)
{
    return ((struct fake_clock *)ctx)->now;
}

static struct wall fake_wall(void *ctx)
{
    return ((struct fake_clock *)ctx)->wall_now;
}

struct clock fake_clock_as_clock(struct fake_clock *f)
{
    return (struct clock){fake_mono, fake_wall, f};
}

void fake_clock_advance(struct fake_clock *f, uint64_t us)
{
    f->now.us += us;
    f->wall_now.us += (int64_t)us;
}

void wall_format(struct wall w, char out[32])
{
    int64_t ms = w.us / 1000;
    time_t seconds = (time_t)(ms / 1000);
    struct tm t;
    gmtime_r(&seconds, &t);
    size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, 32 - n, ".%03dZ", (int)(ms % 1000));
}
