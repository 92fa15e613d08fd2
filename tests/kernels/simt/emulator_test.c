/* The emulator itself: every planted defect is reported in some order, clean kernels never, graphs
 * replay, and statistics count what they should. The same program is linked with each build of the
 * kernels. */
#include "common/test.h"

#include "kernels/simt/simt.h"
#include "tests/kernels/simt/defects.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dev_stream *stream;

static void test_clean(void **state)
{
    (void)state;
    simt_set_quiet(false);
    for (unsigned i = 0; defect_at(i); i++) {
        const struct defect *d = defect_at(i);
        for (unsigned order = 0; order < SIMT_ORDERS + 2; order++) {
            char text[300];
            simt_set_order(order);
            bool is_right = d->run(stream, 0);
            if (simt_take_reports(text, sizeof text))
                fail_msg("%s, left out: order %u: %s", d->name, order, text);
            if (!is_right)
                fail_msg("%s, left out: wrong values in order %u", d->name, order);
        }
    }
}

/* How many orders show it; *says: whether a report has the expected words. */
static unsigned orders_that_show(const struct defect *d, bool *says)
{
    unsigned n = 0;
    for (unsigned order = 0; order < SIMT_ORDERS; order++) {
        char text[300];
        simt_set_order(order);
        bool is_right = d->run(stream, 1);
        bool is_reported = simt_take_reports(text, sizeof text) > 0;
        n += is_reported || !is_right;
        *says = *says || (is_reported && strstr(text, d->says));
    }
    return n;
}

#ifdef __SANITIZE_ADDRESS__
/* The sanitizer ends the process, so a child does it. */
static bool is_ended(const struct defect *d)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        d->run(stream, 1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status != 0;
}
#endif

static void test_planted(void **state)
{
    (void)state;
    simt_set_quiet(true);
    for (unsigned i = 0; defect_at(i); i++) {
        const struct defect *d = defect_at(i);
        bool says = d->says[0] == '\0';
        if (d->seen != DEFECT_SEEN_BY_ALL && !simt_is_checked()) {
#ifdef __SANITIZE_ADDRESS__
            if (d->seen == DEFECT_OUT_OF_BOUNDS && !is_ended(d))
                fail_msg("%s: the sanitizer says nothing", d->name);
#endif
            continue;
        }
#ifdef __SANITIZE_ADDRESS__
        if (strcmp(d->name, "misaligned access") == 0)
            continue; /* ends the process too, by its own check */
#endif
        unsigned n = orders_that_show(d, &says);
        print_message("%-24s seen in %u of %d orders\n", d->name, n, SIMT_ORDERS);
        if (n == 0)
            fail_msg("%s: not seen", d->name);
        if (simt_is_checked() && !says)
            fail_msg("%s: no report says '%s'", d->name, d->says);
    }
    simt_set_quiet(false);
}

static void test_graph(void **state)
{
    enum { N = 64, LAUNCHES = 3 };
    struct err e;
    unsigned char host[N], *device = DEV_SIMT.alloc(N);
    (void)state;
    simt_set_order(SIMT_FORWARD);
    memset(host, 7, sizeof host);
    DEV_SIMT.capture_begin(stream);
    DEV_SIMT.copy(device, host, N, DEV_TO_DEVICE, stream);
    DEV_SIMT.copy(host + 1, device, N - 1, DEV_TO_HOST, stream);
    struct dev_graph *g = DEV_SIMT.capture_end(stream);
    host[0] = 9;
    for (int i = 0; i < LAUNCHES; i++)
        DEV_SIMT.graph_launch(g, stream);
    assert_ok(DEV_SIMT.sync(stream, &e), &e);
    for (int i = 0; i < N; i++)
        assert_int_equal(host[i], i <= LAUNCHES ? 9 : 7);
    DEV_SIMT.graph_close(g);
    DEV_SIMT.release(device);
}

static void test_errors_of_the_host(void **state)
{
    struct err e;
    char byte = 0, *device = DEV_SIMT.alloc(16), text[300];
    (void)state;
    simt_set_quiet(true);
    DEV_SIMT.copy(device + 15, "ab", 2, DEV_TO_DEVICE, stream);
    assert_int_equal(DEV_SIMT.sync(stream, &e), ERR_DEVICE);
    assert_int_equal(DEV_SIMT.sync(stream, &e), ERR_DEVICE);
    assert_true(simt_take_reports(text, sizeof text) > 0);
    assert_non_null(strstr(text, "foreign device memory"));
    DEV_SIMT.release(device);
    DEV_SIMT.release(device);
    DEV_SIMT.copy(&byte, device, 1, DEV_TO_HOST, stream);
    assert_int_equal(DEV_SIMT.sync(stream, &e), ERR_DEVICE);
    assert_int_equal(simt_take_reports(NULL, 0), 2);
    assert_null(DEV_SIMT.alloc((size_t)1 << 50));
    simt_set_quiet(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean), cmocka_unit_test(test_planted),
                                       cmocka_unit_test(test_graph),
                                       cmocka_unit_test(test_errors_of_the_host)};
    stream = DEV_SIMT.stream_open();
    return cmocka_run_group_tests_name("kernels.simt", tests, NULL, NULL);
}
