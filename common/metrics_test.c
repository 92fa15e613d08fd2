/* The text format, label escapes, the cap on children. */
#include "common/test.h"

#include "common/metrics.h"

#include <stdio.h>
#include <string.h>

static const double BOUNDS[] = {1, 2.5};
static const struct metric_desc COUNTER = {
    .name = "t_total", .help = "Count.", .type = METRIC_COUNTER, .labels = {"arm"}};
static const struct metric_desc GAUGE = {.name = "t_ratio", .help = "Share.", .type = METRIC_GAUGE};
static const struct metric_desc HISTOGRAM = {.name = "t_seconds",
                                             .help = "Time.",
                                             .type = METRIC_HISTOGRAM,
                                             .labels = {"arm"},
                                             .buckets = BOUNDS,
                                             .n_buckets = 2};

static void test_text(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric_family *f = metrics_add(m, &COUNTER);
    metric_inc(metric_child(f, (const char *[]){"a\"b"}));
    metric_add(metric_child(f, (const char *[]){"a\"b"}), 2);
    metric_set(metrics_add_one(m, &GAUGE), 0.25);
    struct metric *h = metric_child(metrics_add(m, &HISTOGRAM), (const char *[]){"x"});
    metric_observe(h, 1);
    metric_observe(h, 2);
    metric_observe(h, 9);
    struct buf b;
    buf_init(&b, 1 * MiB);
    metrics_render(m, &b);
    assert_str(buf_str(&b),
               "# HELP t_total Count.\n# TYPE t_total counter\nt_total{arm=\"a\\\"b\"} 3\n"
               "# HELP t_ratio Share.\n# TYPE t_ratio gauge\nt_ratio 0.25\n"
               "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n"
               "t_seconds_bucket{arm=\"x\",le=\"1\"} 1\nt_seconds_bucket{arm=\"x\",le=\"2.5\"} 2\n"
               "t_seconds_bucket{arm=\"x\",le=\"+Inf\"} 3\nt_seconds_sum{arm=\"x\"} 12\n"
               "t_seconds_count{arm=\"x\"} 3\n");
    buf_free(&b);
    metrics_free(m);
}

static void test_children_are_capped(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric_family *f = metrics_add(m, &COUNTER);
    for (int i = 0; i < METRIC_MAX_CHILDREN + 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        metric_inc(metric_child(f, (const char *[]){name}));
    }
    assert_true(metric_value(metric_child(f, (const char *[]){"other"})) == 10);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_children_are_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
