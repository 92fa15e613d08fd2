/* One line an event, cut when long, limited when repeated. */
#include "common/test.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Runs fn with stderr in a pipe and gives what it wrote. */
static size_t capture(void (*fn)(void), char *out, size_t cap)
{
    int pipe_fd[2], saved = dup(2);
    assert_int_equal(pipe(pipe_fd), 0);
    dup2(pipe_fd[1], 2);
    close(pipe_fd[1]);
    fn();
    dup2(saved, 2);
    close(saved);
    ssize_t n = 0, got;
    while ((got = read(pipe_fd[0], out + n, cap - 1 - (size_t)n)) > 0)
        n += got;
    close(pipe_fd[0]);
    out[n] = '\0';
    return (size_t)n;
}

static void write_one(void)
{
    log_setup("test", LOG_INFO);
    log_event(LOG_DEBUG, "unit.hidden", "x=1");
    log_event(LOG_INFO, "unit.shown", "x=%d", 2);
    log_event(LOG_INFO, "unit.forged", "why=\"%s\"", "a\nts=0 ev=forged\x1b[2J");
}

static void write_long(void)
{
    log_event(LOG_WARN, "unit.long", "x=%5000d", 1);
}

static void write_many(void)
{
    for (int i = 0; i < 10 * LOG_BURST; i++)
        log_event(LOG_WARN, "unit.many", "i=%d", i);
}

static void test_lines(void **state)
{
    (void)state;
    char out[16384];
    capture(write_one, out, sizeof out);
    assert_non_null(strstr(out, " lvl=info proc=test ev=unit.shown x=2\n"));
    assert_null(strstr(out, "hidden"));
    assert_non_null(strstr(out, "a ts=0 ev=forged [2J"));
    size_t n = capture(write_long, out, sizeof out);
    assert_true(n <= 2048 && out[n - 1] == '\n');
}

static void test_rate(void **state)
{
    (void)state;
    char out[65536];
    capture(write_many, out, sizeof out);
    int lines = 0;
    for (const char *p = out; (p = strchr(p, '\n')); p++)
        lines++;
    assert_in_range(lines, LOG_BURST, 2 * LOG_BURST + 1); /* a second may end in between */
}

static void test_quote(void **state)
{
    (void)state;
    char out[16];
    assert_string_equal(log_quote(STR("a \"b\"\n"), out, sizeof out), "\"a \\\"b\\\" \"");
    log_quote(STR("0123456789012345678"), out, sizeof out);
    assert_true(strlen(out) < sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
