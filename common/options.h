/* common/options.h - long and short options from a table; positional arguments remain.
 *
 * --name value, --name=value, -n value, flags; "--" ends options. A flag is a bool, a text a
 * const char *, a number an int64_t with its range. Help prints defaults, which are the values the
 * variables have before parsing. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "common/str.h"

#include <stdio.h>

enum { OPT_LIST_MAX = 64 };

enum opt_kind { OPT_FLAG, OPT_TEXT, OPT_INT, OPT_LIST };

struct opt_list {
    const char *item[OPT_LIST_MAX];
    size_t n;
};

struct opt {
    const char *name; /* without dashes */
    char letter;      /* 0 = none */
    enum opt_kind kind;
    void *value; /* bool, const char *, int64_t, struct opt_list */
    int64_t min, max;
    const char *argument; /* "FILE"; NULL for a flag */
    const char *help;     /* NULL = not for people */
};

struct opt_group {
    const char *title;
    const struct opt *opt;
    size_t n;
};

/* Moves the positional arguments to the front of argv and sets *n_left. ERR_INVALID names the
 * option, what was found and the nearest known one. argv[0] is the first argument. */
MUST_USE int opt_parse(const struct opt_group *group, size_t n_group, int argc, char **argv,
                       int *n_left, struct err *e);
void opt_help(const struct opt_group *group, size_t n_group, FILE *to);

#endif
