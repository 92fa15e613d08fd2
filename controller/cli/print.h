/* controller/cli/print.h - tables and JSON values as a person reads them. */
#ifndef CONTROLLER_CLI_PRINT_H
#define CONTROLLER_CLI_PRINT_H

#include "common/arena.h"
#include "common/progress.h"
#include "common/tone.h"

#include <jansson.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 16, TABLE_MAX_ROWS = 2000 };

/* Cells are NUL-terminated texts in an arena; a column whose title begins with '>' is aligned to
 * the right (the sign is not printed). */
struct table {
    struct arena *arena;
    size_t n_column, n_row;
    const char *title[TABLE_MAX_COLUMNS];
    const char **cell; /* [n_row][n_column] */
    enum tone *tone;   /* [n_row][n_column] */
};

MUST_USE int table_init(struct table *t, struct arena *a, const char *const *titles, size_t n,
                        struct err *e);
/* Takes n_column texts; rows past the maximum are left out. */
void table_row(struct table *t, const char *const *cells);
/* Of a cell of the last row. */
void table_tone(struct table *t, size_t column, enum tone tone);
void table_print(const struct table *t, FILE *to);

/* Values of an object by key, never NULL: "" for an absent text, "-" for an absent number. */
const char *json_text_of(const json_t *object, const char *key);
const char *json_number_of(struct arena *a, const json_t *object, const char *key, int decimals);
double json_real_of(const json_t *object, const char *key); /* NaN when absent */
int64_t json_int_of(const json_t *object, const char *key); /* 0 when absent */
/* One line, control characters as spaces, at most max_chars code points, "..." when cut. */
const char *one_line(struct arena *a, const char *text, size_t max_chars);
/* "{"temperature":0.5}" as "temperature=0.5 max_new_tokens=64". */
const char *params_line(struct arena *a, const json_t *params);
/* Wall time as "2026-01-31 12:34:56". */
const char *time_of(struct arena *a, int64_t wall_us);
/* "12 s ago", "3 min ago". */
const char *age_of(struct arena *a, int64_t ms);

#endif
