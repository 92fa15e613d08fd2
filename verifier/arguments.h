/* verifier/arguments.h - the command line of milepost-verifier, without `check`. */
#ifndef VERIFIER_ARGUMENTS_H
#define VERIFIER_ARGUMENTS_H

#include "common/err.h"

#include <stdio.h>

enum arguments_mode { MODE_SERVE, MODE_CHECK_CONFIG, MODE_PRINT_CONFIG, MODE_VERSION, MODE_HELP };
enum { ARGUMENTS_MAX_SET = 64 };

struct arguments {
    enum arguments_mode mode;
    const char *config; /* NULL = defaults */
    const char *set[ARGUMENTS_MAX_SET];
    size_t n_set;
};

/* ERR_INVALID: unknown option (with what is known), missing value. Texts are borrowed from argv. */
MUST_USE int arguments_parse(int argc, char **argv, struct arguments *out, struct err *e);
void arguments_usage(FILE *to);

#endif
