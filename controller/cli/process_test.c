/* Children: exit codes, logs, a polite stop, a stubborn one, and what refusals say. */
#include "common/test.h"

#include "controller/cli/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_shell(struct process *p, const char *script, const char *log)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct err e = {0};

    assert_ok(process_start(p, argv, log, &e), &e);
}

static void test_exit_code_and_log(void **state)
{
    (void)state;
    char dir[] = "/tmp/milepost_process_XXXXXX", log[64], text[64] = "", line[64];
    struct process p;
    int status = 0;

    assert_non_null(mkdtemp(dir));
    snprintf(log, sizeof log, "%s/log", dir);
    start_shell(&p, "echo out; echo err >&2; exit 3", log);
    assert_true(process_wait(&p, 5000, &status));
    assert_int_equal(p.pid, 0);
    process_describe(status, text, sizeof text);
    assert_string_equal(text, "exit code 3");
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "out\n");
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "err\n");
    fclose(f);
    unlink(log);
    rmdir(dir);
}

static void test_stop(void **state)
{
    (void)state;
    struct process polite, stubborn;

    start_shell(&polite, "exec sleep 60", NULL);
    assert_false(process_wait(&polite, 0, NULL));
    assert_true(process_stop(&polite, 5000));
    start_shell(&stubborn, "trap '' TERM; echo ready; while :; do sleep 1; done", "/dev/null");
    usleep(200000); /* so that the trap is set */
    assert_false(process_stop(&stubborn, 200));
    assert_int_equal(stubborn.pid, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *missing[] = {"/nonexistent/program", NULL};
    const char *shell[] = {"/bin/sh", "-c", "exit 0", NULL};
    struct process p;
    struct err e = {0};

    assert_int_equal(process_start(&p, missing, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/nonexistent/program"));
    assert_int_equal(process_start(&p, shell, "/nonexistent/log", &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/nonexistent/log"));
    assert_int_equal(p.pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_code_and_log),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
