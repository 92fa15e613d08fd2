/* `milepost bench serve|kernel`: picks the kind. */
#include "controller/cli/bench/bench.h"

#include <stdio.h>
#include <string.h>

static const struct cli_command KINDS[] = {
    {"", "serve", "load on a running server: TTFT, gaps, throughput, goodput", bench_serve},
    {"", "kernel", "each kernel against this machine's limits", bench_kernel},
};
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0] };

int cmd_bench(struct cli *c, int argc, char **argv)
{
    if (c->outline)
        return bench_serve(c, 0, NULL);
    for (size_t i = 0; argc > 0 && i < N_KINDS; i++)
        if (strcmp(argv[0], KINDS[i].name) == 0)
            return KINDS[i].run(c, argc - 1, argv + 1);
    bool is_help = argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0);
    FILE *to = is_help ? stdout : stderr;
    if (!is_help && argc > 0)
        fprintf(to, "milepost: no benchmark '%s'\n", argv[0]);
    fputs("Usage: milepost bench KIND [options]\n\n", to);
    for (size_t i = 0; i < N_KINDS; i++)
        fprintf(to, "  %-10s %s\n", KINDS[i].name, KINDS[i].summary);
    fputs("\n'milepost bench KIND --help' tells more.\n", to);
    return is_help ? CLI_OK : CLI_USAGE;
}
