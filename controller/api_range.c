/* Rewards over a range of time, from sums: by the minute for two days, by the hour beyond. The
 * answer's size and cost do not depend on how many outputs there were.
 *
 * The interval is a confidence sequence of the arm's mean since its revision began in the range
 * (normal mixture, CONTROL.md 2.3): the empirical Bernstein one needs every single reward. */
#include "controller/api_read.h"
#include "controller/stats/confseq.h"
#include "controller/store/rollups.h"

#include <math.h>

enum { SLICES = 60 };
#define SIGMA2 0.25  /* of data in [0,1] */
#define RHO    100.0 /* tightest at some hundred outputs */

struct arm_sums {
    int64_t revision; /* with most rows of the slice */
    int64_t most;
    double n, sum;
    int64_t running_revision;
    double running_n, running_sum; /* since running_revision began */
};

struct range {
    struct arm_sums arm[2];
    int64_t slice_us, width_us;
    json_t *list;
};

static json_t *point_of(struct arm_sums *a)
{
    if (a->n <= 0)
        return json_null();
    if (a->revision != a->running_revision) {
        a->running_revision = a->revision;
        a->running_n = a->running_sum = 0;
    }
    a->running_n += a->n;
    a->running_sum += a->sum;
    double mean = a->running_sum / a->running_n;
    double radius = confseq_normal_mixture(a->running_n, SIGMA2, RHO, 0.05);
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f}", "revision", (json_int_t)a->revision, "n",
                     (json_int_t)a->n, "mean", a->sum / a->n, "running_mean", mean, "lower",
                     fmax(0.0, mean - radius), "upper", fmin(1.0, mean + radius));
}

static void end_slice(struct range *r)
{
    if (r->slice_us == 0)
        return;
    json_t *o = json_pack("{s:n, s:n, s:I, s:o, s:o}", "first_row", "last_row", "at_us",
                          (json_int_t)(r->slice_us + r->width_us / 2), "champion",
                          point_of(&r->arm[0]), "challenger", point_of(&r->arm[1]));
    json_array_append_new(r->list, o);
    for (int i = 0; i < 2; i++) {
        r->arm[i].n = r->arm[i].sum = 0;
        r->arm[i].most = 0;
    }
}

static void add(struct range *r, struct db_stmt *q)
{
    struct arm_sums *a = &r->arm[db_col_i64(q, 1) != 0];
    if (db_col_i64(q, 0) != r->slice_us) {
        end_slice(r);
        r->slice_us = db_col_i64(q, 0);
    }
    int64_t n = db_col_i64(q, 3);
    a->n += (double)n;
    a->sum += db_col_f64(q, 4);
    if (n > a->most) {
        a->most = n;
        a->revision = db_col_i64(q, 2);
    }
}

int api_read_rewards(struct store *s, struct str route, int64_t hours, int64_t now_us, json_t **out,
                     struct err *e)
{
    bool is_fine = hours * ROLLUP_HOUR_US <= ROLLUP_MINUTES_KEPT_US;
    int64_t step_us = is_fine ? ROLLUP_MINUTE_US : ROLLUP_HOUR_US;
    struct range r = {.list = json_array()};
    struct db_stmt *q;
    r.width_us = (hours * ROLLUP_HOUR_US / SLICES + step_us - 1) / step_us * step_us;
    int rc = store_statement(
        s,
        is_fine ? "SELECT minute_us-minute_us%?3 AS slice,arm<>'champion' AS a,revision,"
                  "sum(n-n_unscored),sum(reward_sum) FROM minutes WHERE route=?1 AND minute_us>=?2 "
                  "GROUP BY slice,a,revision ORDER BY slice"
                : "SELECT hour_us-hour_us%?3 AS slice,arm<>'champion' AS a,revision,"
                  "sum(n-n_unscored),sum(reward_sum) FROM rollups WHERE route=?1 AND hour_us>=?2 "
                  "GROUP BY slice,a,revision ORDER BY slice",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, now_us - hours * ROLLUP_HOUR_US);
        db_bind_i64(q, 3, r.width_us);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        add(&r, q);
    end_slice(&r);
    *out = json_pack("{s:o}", "rewards", r.list);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}
