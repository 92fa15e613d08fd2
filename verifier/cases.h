/* verifier/cases.h - truth tables of checks: tests/cases/ files, and `milepost-verifier check`.
 *
 * Tab-separated lines after one header line: kind, output, reference, expected, source. Escapes in
 * fields: \\ \n \t \r. A kind may carry parameters: "exact:scope=first_word,ignore_case=true". */
#ifndef VERIFIER_CASES_H
#define VERIFIER_CASES_H

#include "common/buf.h"

struct cases_report {
    uint32_t rows, agreed, disagreed, skipped;
    uint64_t slowest_us; /* CPU time of the slowest row */
    uint32_t slowest_line;
};

/* Runs every row; writes one line per disagreement, one per kind that is not known here, and a
 * total into out. ERR_INVALID: the table itself is broken (line and what was found). */
MUST_USE int cases_run(struct str table, struct buf *out, struct cases_report *report,
                       struct err *e);

#endif
