/* Rows to text and JSON. Names are ours: nothing in them needs an escape. */
#include "tests/gpu/bench/rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void rows_add(struct rows *rows, const struct row *row)
{
    if (rows->n < ROWS_MAX)
        rows->row[rows->n++] = *row;
    double us = row->us > 0 ? row->us : INFINITY; /* the emulator has no time */
    printf("%-58s %10.2f us %8.1f GB/s %9.2f TFLOP/s", row->name, row->us, row->bytes / us / 1e3,
           row->flops / us / 1e6);
    if (row->tok_s > 0)
        printf(" %10.1f tok/s", row->tok_s);
    printf("\n");
    fflush(stdout);
}

int rows_write(const struct rows *rows, const char *kind, const char *path, struct err *e)
{
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!path)
        return ERR_OK;
    if (!f)
        return err_set_sys(e, ERR_IO, errno, "%s", path);
    fprintf(f, "{\"kind\": \"%s\", \"rows\": [", kind);
    for (uint32_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->row[i];
        fprintf(f,
                "%s\n {\"name\": \"%s\", \"us\": %.3f, \"bytes\": %.0f, \"flops\": %.0f, "
                "\"tok_s\": %.3f}",
                i ? "," : "", r->name, r->us, r->bytes, r->flops, r->tok_s);
    }
    fprintf(f, "\n]}\n");
    return fclose(f) == 0 ? ERR_OK : err_set_sys(e, ERR_IO, errno, "%s", path);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double rows_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n ? values[n / 2] : 0;
}
