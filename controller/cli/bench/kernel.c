/* `milepost bench kernel`: replaces itself with milepost-kernels, which links the kernels; the
 * command line tool does not (processes never include each other). */
#include "controller/cli/bench/bench.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ARGS = 64 };

int bench_kernel(struct cli *c, int argc, char **argv)
{
    const char *program, *args[MAX_ARGS + 2];
    struct err e = {0};

    arena_init(&c->arena, MiB);
    if (argc > MAX_ARGS) {
        err_set(&e, ERR_INVALID, "more than %d arguments", MAX_ARGS);
        return cli_fail(&e);
    }
    if (cli_sibling(c, "milepost-kernels", &program, &e) != ERR_OK)
        return cli_fail(&e);
    args[0] = "milepost bench kernel";
    for (int i = 0; i < argc; i++)
        args[i + 1] = argv[i];
    args[argc + 1] = NULL;
    execv(program, (char *const *)args);
    err_set(&e, ERR_IO, "%s: %s", program, strerror(errno));
    return cli_fail(&e);
}
