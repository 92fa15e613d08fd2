/* The `milepost` command: a table of sub-commands, grouped in its help.
 *
 * Exit codes: 0 done, 1 it did not work, 2 command line or configuration. */
#include "controller/cli/cli.h"

#include "common/nearest.h"
#include "common/program.h"
#include "common/tone.h"

#include <string.h>

static void print_help(FILE *to)
{
    const char *group = "";

    fprintf(to, "Usage: milepost COMMAND [options]\n\n"
                "Milepost serves a language model and keeps it good.\n");
    for (size_t i = 0; i < CLI_COMMANDS_N; i++) {
        if (strcmp(group, CLI_COMMANDS[i].group) != 0)
            fprintf(to, "\n%s%s%s\n", tone_begin(to, TONE_TITLE), CLI_COMMANDS[i].group,
                    tone_end(to, TONE_TITLE));
        group = CLI_COMMANDS[i].group;
        fprintf(to, "  %-11s %s\n", CLI_COMMANDS[i].name, CLI_COMMANDS[i].summary);
    }
    fprintf(to, "\n'milepost COMMAND --help' tells more. All that print take --json.\n"
                "Exit codes: 0 done, 1 it did not work, 2 command line or configuration.\n");
}

static int unknown(const char *name)
{
    const char *names[CLI_COMMANDS_N];

    for (size_t i = 0; i < CLI_COMMANDS_N; i++)
        names[i] = CLI_COMMANDS[i].name;
    const char *near = nearest_name(str_from(name), names, CLI_COMMANDS_N);
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
    for (size_t i = 0; i < CLI_COMMANDS_N; i++) {
        if (strcmp(argv[1], CLI_COMMANDS[i].name) == 0) {
            struct cli c = {0};
            int code = CLI_COMMANDS[i].run(&c, argc - 2, argv + 2);
            cli_end(&c);
            return code;
        }
    }
    return unknown(argv[1]);
}
