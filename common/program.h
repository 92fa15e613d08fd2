/* common/program.h - the command line that the processes share: --config, --set, --check-config,
 * --print-config, --version, --help, and what one of them adds. Start-up only. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

#include "common/config.h"
#include "common/options.h"

#ifndef MILEPOST_VERSION
#define MILEPOST_VERSION "0.1.0"
#endif

enum program_exit {
    PROGRAM_OK = 0,
    PROGRAM_FAILED = 1, /* while running */
    PROGRAM_USAGE = 2,  /* command line or configuration */
    PROGRAM_DEVICE = 3,
    PROGRAM_CONTINUE = -1
};

struct program {
    const char *name;  /* "milepost-engine" */
    const char *usage; /* "[options]", one line for each way to call it */
    const char *about;
    const struct opt *opt; /* of its own */
    size_t n_opt;
    /* Filled; texts are borrowed from argv. */
    const char *config; /* NULL = defaults */
    struct opt_list set;
    bool is_check, is_print;
};

/* Reads argv[1...]. PROGRAM_CONTINUE, or the code to exit with: help and version are printed,
 * mistakes told on stderr. No positional arguments. */
int program_begin(struct program *p, int argc, char **argv);
/* Tells the error on stderr; returns `code`, or PROGRAM_DEVICE for a device's. ERR_OK gives 0. */
int program_end(const struct program *p, int rc, int code, const struct err *e);
/* The effective configuration on stdout. */
MUST_USE int program_print_config(const struct cfg_table *t, const void *config, struct err *e);

#endif
