/* controller/cli/bench/plot.h - a load as one self-contained HTML file: a time line of the requests
 * (waiting, then streaming) and the distributions of TTFT, gaps and end-to-end time. No script, no
 * outside resource. */
#ifndef CONTROLLER_CLI_BENCH_PLOT_H
#define CONTROLLER_CLI_BENCH_PLOT_H

#include "controller/cli/bench/summary.h"

/* Overwrites path. `title` is shown as text. ERR_IO names the path. */
MUST_USE int plot_write(const char *path, const char *title, const struct summary *s,
                        const struct shot *shots, uint32_t n, uint64_t begin_us, struct err *e);

#endif
