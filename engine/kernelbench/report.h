/* engine/kernelbench/report.h - timed rows, as a table for people or JSON. */
#ifndef ENGINE_KERNELBENCH_REPORT_H
#define ENGINE_KERNELBENCH_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { REPORT_MAX_ROWS = 256 };

struct report_row {
    char what[64]; /* "gate and up Q4_1, 3072 x 576, 30 layers" */
    uint32_t n_tok;
    double us, spread;     /* median of a step; between the quartiles / median */
    double gb_s, of_read;  /* 0 = does not apply; share of reading memory of the same size */
    double gop_s, of_peak; /* of the model's operations */
    double dots_of_peak;   /* of those that the kernel's dot products execute */
    double at_most;        /* what of_peak can be by the kernel's count of instructions */
};

struct limits {
    uint32_t n_threads;
    double read_gb_s, int8_gop_s, fp32_gflop_s; /* reading 1 GiB */
    double model_read_gb_s;                     /* reading as much as the model's matrices */
    const char *int8_name, *fp32_name;
};

struct report {
    struct limits limits;
    struct report_row row[REPORT_MAX_ROWS];
    size_t n;
};

void report_limits(const struct limits *l);
void report_print_head(void);
void report_print_row(const struct report_row *r);
/* New object. */
json_t *report_json(const struct report *r);

#endif
