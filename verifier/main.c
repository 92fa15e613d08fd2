/* milepost-verifier: reads the configuration, opens the checks, runs the service.
 *
 * Exit codes: 0 done, 1 failed while running, 2 usage or configuration. */
#include "common/log.h"
#include "common/stop.h"
#include "verifier/arguments.h"
#include "verifier/check_command.h"
#include "verifier/sandbox/code_worker.h"
#include "verifier/score_stream.h"
#include "verifier/service.h"

#include <signal.h>
#include <string.h>

#ifndef MILEPOST_VERSION
#define MILEPOST_VERSION "0.1.0"
#endif
enum { EXIT_FAILED = 1, EXIT_CONFIG = 2 };

static int print_config(const struct milepost_config *c, struct err *e)
{
    struct buf out;
    buf_init(&out, 4 * MiB);
    int rc = cfg_print(&MILEPOST_CONFIG, c, &out, e);
    if (rc == ERR_OK)
        fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    return rc;
}

static int serve(const struct milepost_config *c, const struct service_sets *sets, struct arena *a,
                 struct err *e)
{
    int stop_fd = -1;
    int rc = stop_setup(&stop_fd, e);
    return rc == ERR_OK ? service_run(c, sets, stop_fd, a, e) : rc;
}

static int finish(int rc, int code, const struct err *e)
{
    if (rc == ERR_OK)
        return 0;
    fprintf(stderr, "milepost-verifier: %s\n", e->msg);
    return code;
}

static int run(const struct arguments *args, bool is_stream, struct arena *a)
{
    struct err e = {0};
    struct milepost_config c;
    struct service_sets sets = {0};
    enum log_level level = LOG_INFO;
    int rc = milepost_config_load(args->config, args->set, args->n_set, a, &c, &e);
    if (rc == ERR_OK && args->mode == MODE_PRINT_CONFIG)
        return finish(print_config(&c, &e), EXIT_FAILED, &e);
    if (rc == ERR_OK)
        rc = service_open_sets(&c, a, &sets, &e);
    if (rc != ERR_OK)
        return finish(rc, EXIT_CONFIG, &e);
    log_level_parse(c.log_level, &level);
    log_setup("verifier", level);
    if (args->mode == MODE_SERVE && is_stream) {
        signal(SIGPIPE, SIG_IGN); /* a reader that left is an error, with a message */
        rc = score_stream_run(&c, &sets, stdin, stdout, &e);
    } else if (args->mode == MODE_SERVE)
        rc = serve(&c, &sets, a, &e);
    service_close_sets(&sets);
    return finish(rc, EXIT_FAILED, &e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct arguments args;
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_command(argc, argv);
    if (argc == 2 && strcmp(argv[1], CODE_WORKER) == 0)
        return code_worker_run();
    bool is_stream = argc > 1 && strcmp(argv[1], "score") == 0;
    if (arguments_parse(argc - is_stream, argv + is_stream, &args, &e) != ERR_OK)
        return finish(e.code, EXIT_CONFIG, &e);
    if (args.mode == MODE_HELP || args.mode == MODE_VERSION) {
        if (args.mode == MODE_HELP)
            arguments_usage(stdout);
        else
            printf("milepost-verifier %s\n", MILEPOST_VERSION);
        return 0;
    }
    struct arena a;
    arena_init(&a, 16 * MiB);
    int code = run(&args, is_stream, &a);
    arena_free(&a);
    return code;
}
