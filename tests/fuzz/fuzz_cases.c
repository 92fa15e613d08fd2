/* Truth tables from anyone: broken rows, parameters and escapes of every kind. */
#include "verifier/cases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out;
    struct cases_report report;
    struct err e = {0};
    buf_init(&out, 16 * MiB);
    if (cases_run((struct str){(const char *)data, size}, &out, &report, &e) == ERR_OK &&
        report.rows != report.agreed + report.disagreed + report.skipped)
        __builtin_trap();
    buf_free(&out);
    return 0;
}
