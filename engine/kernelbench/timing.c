/* Rounds of a step between measurements of a ceiling; medians, so that a moment in which others
 * take the machine counts for neither. The clock is CLOCK_MONOTONIC through common/clock. */
#include "engine/kernelbench/timing.h"

#include "common/clock.h"

#include <stdlib.h>

enum { ROUNDS = 9, RUNS = 500 };

struct plan {
    uint32_t n; /* rounds, at most ROUNDS */
    double round_us;
};
static const struct plan FULL = {ROUNDS, 25000}, QUICK = {3, 2000};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, uint32_t n)
{
    qsort(value, n, sizeof value[0], by_value);
    return value[n / 2];
}

/* Median of the runs of one round; the first, which wakes threads and fills caches, is not timed.
 */
static int time_round(int (*step)(void *ctx, struct err *e), void *ctx, double budget_us,
                      double *middle, struct err *e)
{
    double us[RUNS], sum = 0;
    uint32_t n = 0;
    int rc = step(ctx, e);

    while (rc == ERR_OK && n < RUNS && (n == 0 || sum < budget_us)) {
        struct mono from = clock_mono(&CLOCK_REAL);
        rc = step(ctx, e);
        us[n] = (double)mono_since_us(from, clock_mono(&CLOCK_REAL));
        us[n] = us[n] > 0 ? us[n] : 0.5; /* below the clock's unit */
        sum += us[n++];
    }
    if (rc == ERR_OK)
        *middle = median(us, n);
    return rc;
}

/* Of reading the best of three: the first after a step does not find all its bytes where they will
 * stay. */
enum { READ_LOOKS = 3 };
static double look(struct ceiling *beside)
{
    return beside ? ceiling_best(beside, ceiling_fills_caches(beside) ? READ_LOOKS : 1) : 0;
}

int timing_run(int (*step)(void *ctx, struct err *e), void *ctx, struct ceiling *beside,
               int is_quick, struct timing *out, struct err *e)
{
    struct plan plan = is_quick ? QUICK : FULL;
    double us[ROUNDS], rate[ROUNDS], could[ROUNDS];
    double before = look(beside), after;

    for (uint32_t i = 0; i < plan.n; i++, before = after) {
        int rc = time_round(step, ctx, plan.round_us, &us[i], e);
        if (rc != ERR_OK)
            return rc;
        after = look(beside);
        rate[i] = (before + after) / 2;
    }
    for (uint32_t i = 0; i < plan.n; i++)
        could[i] = us[i] * rate[i] * 1e3;
    out->us = median(us, plan.n);
    out->spread = (us[plan.n - 1 - plan.n / 4] - us[plan.n / 4]) / out->us;
    out->could = median(could, plan.n);
    return ERR_OK;
}
