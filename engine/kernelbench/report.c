/* Plain columns; a row is printed when it is measured, so that one sees it move. */
#include "engine/kernelbench/report.h"

#include "common/json.h"

#include <stdio.h>

void report_limits(const struct limits *l)
{
    printf("%u threads: reads 1 GiB at %.1f GB/s, as much as the model's matrices at %.1f GB/s; "
           "int8 %.0f GOP/s (%s), fp32 %.0f GFLOP/s (%s)\n\n",
           l->n_threads, l->read_gb_s, l->model_read_gb_s, l->int8_gop_s, l->int8_name,
           l->fp32_gflop_s, l->fp32_name);
    fflush(stdout);
}

void report_print_head(void)
{
    printf(
        "of peak: operations of the model, of the int8 peak (attention: fp32). at most: what this\n"
        "share can be by the instructions that the kernel needs, where two start in a cycle, as "
        "on\n"
        "Intel's cores with AVX-512. executed: operations of all its dot products, second bytes "
        "of\n"
        "activations with them, of the int8 peak. Of read for one token and of peak for several\n"
        "are of what was measured in turn with the step.\n\n");
    printf("%-54s %6s %11s %7s %8s %7s %8s %7s %7s %8s\n", "kernel", "tokens", "us a step",
           "spread", "GB/s", "of read", "GOP/s", "of peak", "at most", "executed");
}

static void put(double value, const char *format)
{
    char text[32] = "-";

    if (value > 0)
        snprintf(text, sizeof text, format, value);
    printf(" %7s", text);
}

void report_print_row(const struct report_row *r)
{
    printf("%-54s %6u %11.1f %6.1f%%  ", r->what, r->n_tok, r->us, r->spread * 100);
    put(r->gb_s, "%.1f");
    put(r->of_read * 100, "%.0f%%");
    printf(" ");
    put(r->gop_s, "%.1f");
    put(r->of_peak * 100, "%.0f%%");
    put(r->at_most * 100, "%.0f%%");
    printf(" ");
    put(r->dots_of_peak * 100, "%.0f%%");
    putchar('\n');
    fflush(stdout);
}

static json_t *limits_json(const struct limits *l)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:s, s:f, s:s}", "threads", (int)l->n_threads,
                     "read_gb_s", l->read_gb_s, "model_read_gb_s", l->model_read_gb_s, "int8_gop_s",
                     l->int8_gop_s, "int8_by", l->int8_name, "fp32_gflop_s", l->fp32_gflop_s,
                     "fp32_by", l->fp32_name);
}

json_t *report_json(const struct report *r)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < r->n; i++) {
        const struct report_row *row = &r->row[i];
        json_array_append_new(rows, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                                              "what", row->what, "tokens", (int)row->n_tok, "us",
                                              row->us, "spread", row->spread, "gb_s", row->gb_s,
                                              "of_read", row->of_read, "gop_s", row->gop_s,
                                              "of_peak", row->of_peak, "of_peak_at_most",
                                              row->at_most, "executed_of_peak", row->dots_of_peak));
    }
    return json_pack("{s:o, s:o}", "limits", limits_json(&r->limits), "rows", rows);
}
