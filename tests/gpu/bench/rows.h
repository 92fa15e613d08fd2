/* tests/gpu/bench/rows.h - what a measurement found: printed as it comes, and a JSON file at the
 * end for report.py, which knows what the numbers are worth. */
#ifndef TESTS_GPU_BENCH_ROWS_H
#define TESTS_GPU_BENCH_ROWS_H

#include "common/err.h"

#include <stdint.h>

enum { ROWS_MAX = 256, ROW_NAME_BYTES = 80 };

struct row {
    char name[ROW_NAME_BYTES];
    double us;    /* median of one */
    double bytes; /* that it must move: read and written */
    double flops; /* that it must do; a multiply-add is two */
    double tok_s; /* 0: no tokens */
};

struct rows {
    struct row row[ROWS_MAX];
    uint32_t n;
};

/* Keeps and prints it; beyond ROWS_MAX only prints. */
void rows_add(struct rows *rows, const struct row *row);
/* {"kind": kind, "rows": [{"name": ..., "us": ...}, ...]}. path NULL: nothing. */
MUST_USE int rows_write(const struct rows *rows, const char *kind, const char *path, struct err *e);
double rows_median(double *values, uint32_t n); /* sorts them */

#endif
