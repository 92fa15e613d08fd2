/* controller/cli/bench/bench.h - the two kinds of `milepost bench`. */
#ifndef CONTROLLER_CLI_BENCH_BENCH_H
#define CONTROLLER_CLI_BENCH_BENCH_H

#include "controller/cli/cli.h"

/* Load on a server that speaks OpenAI's chat completions. */
int bench_serve(struct cli *c, int argc, char **argv);
/* Kernels against this machine's limits: runs the program milepost-kernels beside this one. */
int bench_kernel(struct cli *c, int argc, char **argv);

#endif
