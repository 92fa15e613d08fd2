/* milepost-verifier: reads the configuration, opens the checks, runs the service.
 *
 * Exit codes: 0 done, 1 failed while running, 2 usage or configuration. */
#include "common/log.h"
#include "common/program.h"
#include "common/stop.h"
#include "verifier/check_command.h"
#include "verifier/sandbox/code_worker.h"
#include "verifier/score_stream.h"
#include "verifier/service.h"

#include <signal.h>
#include <string.h>

static int serve(const struct milepost_config *c, const struct service_sets *sets, struct arena *a,
                 struct err *e)
{
    int stop_fd = -1;
    int rc = stop_setup(&stop_fd, e);
    return rc == ERR_OK ? service_run(c, sets, stop_fd, a, e) : rc;
}

static int run(const struct program *p, bool is_stream, struct arena *a)
{
    struct err e = {0};
    struct milepost_config c;
    struct service_sets sets = {0};
    enum log_level level = LOG_INFO;
    int rc = milepost_config_load(p->config, p->set.item, p->set.n, a, &c, &e);
    if (rc == ERR_OK && p->is_print)
        return program_end(p, program_print_config(&MILEPOST_CONFIG, &c, &e), PROGRAM_FAILED, &e);
    if (rc == ERR_OK)
        rc = service_open_sets(&c, a, &sets, &e);
    if (rc != ERR_OK)
        return program_end(p, rc, PROGRAM_USAGE, &e);
    log_level_parse(c.log_level, &level);
    log_setup("verifier", level);
    if (!p->is_check && is_stream) {
        signal(SIGPIPE, SIG_IGN); /* a reader that left is an error, with a message */
        rc = score_stream_run(&c, &sets, stdin, stdout, &e);
    } else if (!p->is_check)
        rc = serve(&c, &sets, a, &e);
    service_close_sets(&sets);
    return program_end(p, rc, PROGRAM_FAILED, &e);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_command(argc, argv);
    if (argc == 2 && strcmp(argv[1], CODE_WORKER) == 0)
        return code_worker_run();
    struct program p = {
        .name = "milepost-verifier",
        .usage = "[options]\n"
                 "       milepost-verifier score [options] < OUTPUTS > SCORES   (JSON lines)\n"
                 "       milepost-verifier check --cases FILE.tsv",
        .about = "Scores outputs from the engines and sends the scores to the controller."};
    bool is_stream = argc > 1 && strcmp(argv[1], "score") == 0;
    int code = program_begin(&p, argc - is_stream, argv + is_stream);
    if (code != PROGRAM_CONTINUE)
        return code;
    struct arena a;
    arena_init(&a, 16 * MiB);
    code = run(&p, is_stream, &a);
    arena_free(&a);
    return code;
}
