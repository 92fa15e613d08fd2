/* Reads a truth table and prints what cases_run says of it. One thread. */
#include "verifier/check_command.h"

#include "common/io.h"
#include "verifier/cases.h"
#include "verifier/check.h"

#include <stdio.h>
#include <string.h>

enum { TABLE_MAX_MIB = 64, REPORT_MAX_MIB = 16 };

static void print_usage(FILE *to)
{
    struct buf kinds;
    buf_init(&kinds, 4 * KiB);
    check_kinds_text(&kinds);
    fprintf(
        to,
        "usage: milepost-verifier check --cases FILE.tsv\n"
        "Runs a truth table (kind, output, reference, expected, source; tab-separated, escapes\n"
        "\\\\ \\n \\t \\r) and prints each disagreement and a total. Exit 0: all agree.\n"
        "Checks known here: " STR_FMT "\n",
        STR_ARG(buf_str(&kinds)));
    buf_free(&kinds);
}

static int run_table(const char *path)
{
    struct err e = {0};
    struct cases_report report;
    struct buf table, out;
    buf_init(&table, TABLE_MAX_MIB * MiB);
    buf_init(&out, REPORT_MAX_MIB * MiB);
    int rc = io_read_file(path, &table, &e);
    if (rc == ERR_OK)
        rc = cases_run(buf_str(&table), &out, &report, &e);
    if (rc == ERR_OK)
        fwrite(out.p, 1, out.n, stdout);
    else
        fprintf(stderr, "milepost-verifier check: %s: %s\n", path, e.msg);
    buf_free(&table);
    buf_free(&out);
    return rc != ERR_OK ? 2 : report.disagreed > 0;
}

int check_command(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (argc == 4 && strcmp(argv[2], "--cases") == 0)
        return run_table(argv[3]);
    print_usage(stderr);
    return 2;
}
