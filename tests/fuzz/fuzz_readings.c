/* Metrics of a process, as `milepost doctor` reads them: a text before, a zero byte, one after. */
#include "common/buf.h"
#include "controller/cli/diagnosis.h"
#include "controller/cli/readings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *zero = size ? memchr(p, 0, size) : NULL;
    size_t n = zero ? (size_t)(zero - p) : size;
    const struct str before = {p, n}, after = zero ? (struct str){zero + 1, size - n - 1} : before;
    struct looks l = {.seconds = 5};
    struct diagnosis d;
    struct arena a;
    arena_init(&a, MiB);
    for (int i = 0; i < PROCESSES; i++) {
        l.before.text[i] = before;
        l.after.text[i] = after;
    }
    diagnose(&l, &a, &d);
    for (uint32_t i = 0; i < d.n; i++)
        if (strlen(d.finding[i].what) > 255 || !health_name(d.finding[i].health))
            abort();
    arena_free(&a);
    return 0;
}
