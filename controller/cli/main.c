/* The `milepost` command: a table of sub-commands, grouped in its help.
 *
 * Exit codes: 0 done, 1 it did not work, 2 command line or configuration. */
#include "controller/cli/cli.h"

#include "common/nearest.h"
#include "common/program.h"

#include <string.h>

static const struct cli_command COMMANDS[] = {
    {"Run", "up", "start engine, verifier and controller; Ctrl-C stops them", cmd_up},
    {"Run", "demo", "watch the loop catch a bad push, then mend a bad setting", cmd_demo},
    {"Use", "chat", "talk to the model", cmd_chat},
    {"Watch", "status", "engines, routes, arms and their tests", cmd_status},
    {"Watch", "scores", "recent outputs with their check results", cmd_scores},
    {"Steer", "params", "show, set, history, diff of a route's parameters", cmd_params},
    {"Steer", "rollback", "back to an earlier revision", cmd_rollback},
    {"Steer", "promote", "the revision on trial serves all, untested", cmd_promote},
    {"Steer", "stop", "end the running trial", cmd_stop},
    {"Steer", "experiment", "compare several settings at once: plan, start, list, report, stop",
     cmd_experiment},
    {"Steer", "pause", "freeze a route's law", cmd_pause},
    {"Steer", "resume", "let it go on", cmd_resume},
    {"Steer", "engine", "list engines; drain, resume, flush-cache, load-weights", cmd_engine},
    {"Check", "config", "check a configuration file, print its reference", cmd_config},
    {"Check", "bench", "measure a server under load, or the kernels", cmd_bench},
    {"Check", "rescore", "stored outputs under other checks, beside their old scores", cmd_rescore},
    {"Check", "replay", "recompute every decision from the stored rows", cmd_replay},
};

enum { N_COMMANDS = sizeof COMMANDS / sizeof COMMANDS[0] };

static void print_help(FILE *to)
{
    const char *group = "";

    fprintf(to, "Usage: milepost COMMAND [options]\n\n"
                "Milepost serves a language model and keeps it good.\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(group, COMMANDS[i].group) != 0)
            fprintf(to, "\n%s\n", COMMANDS[i].group);
        group = COMMANDS[i].group;
        fprintf(to, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    }
    fprintf(to, "\n'milepost COMMAND --help' tells more. All that print take --json.\n"
                "Exit codes: 0 done, 1 it did not work, 2 command line or configuration.\n");
}

static int unknown(const char *name)
{
    const char *names[N_COMMANDS];

    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = COMMANDS[i].name;
    const char *near = nearest_name(str_from(name), names, N_COMMANDS);
    fprintf(stderr, "milepost: no command '%s'%s%s%s; 'milepost --help' lists them\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("milepost %s\n", MILEPOST_VERSION);
        return CLI_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], COMMANDS[i].name) == 0) {
            struct cli c = {0};
            int code = COMMANDS[i].run(&c, argc - 2, argv + 2);
            cli_end(&c);
            return code;
        }
    }
    return unknown(argv[1]);
}
