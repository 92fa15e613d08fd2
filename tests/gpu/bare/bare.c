/* The runner behind cmocka.h, and xxHash's place in a build that has no libraries: FNV-1a
 * (draft-eastlake-fnv), which names tensors of a file and files among each other as well. */
#include "common/hash.h"
#include "kernels/cuda/dev.h"

#include <cmocka.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

enum { PASSED, FAILED, SKIPPED, NO_DEVICE = 77 };

static jmp_buf *leave(void) /* out of the test under way */
{
    static jmp_buf here;
    return &here;
}

void bare_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    longjmp(*leave(), FAILED);
}

void bare_skip(void)
{
    longjmp(*leave(), SKIPPED);
}

static int run_one(const struct CMUnitTest *test)
{
    static const char *const WORDS[] = {"passed", "FAILED", "skipped"};
    void *state = NULL;
    int end = setjmp(*leave());
    if (end == 0)
        test->run(&state);
    printf("%s: %s\n", test->name, WORDS[end]);
    fflush(stdout);
    return end == FAILED;
}

int bare_run(const char *group, const struct CMUnitTest *tests, size_t n,
             int (*setup)(void **state), int (*teardown)(void **state))
{
    const char *filter = getenv("TEST_FILTER");
    int n_failed = 0, n_run = 0;
    void *state = NULL;
    struct err e;
    if (DEV_CUDA.open(0, &e) != ERR_OK) {
        printf("%s: %s\n", group, e.msg);
        return NO_DEVICE;
    }
    if (setup && setup(&state) != 0) {
        printf("%s: its set-up failed\n", group);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (filter && !strstr(tests[i].name, filter))
            continue;
        n_run++;
        n_failed += run_one(&tests[i]);
    }
    if (teardown)
        (void)teardown(&state);
    printf("%s: %d of %d failed\n", group, n_failed, n_run);
    return n_failed;
}

uint64_t hash64(const void *p, size_t n, uint64_t seed)
{
    const unsigned char *bytes = p;
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* Of the first bytes only: it names a file that this process made itself. */
void hash128_hex(const void *p, size_t n, char out[33])
{
    enum { ENOUGH = 1 << 16 };
    size_t some = n < ENOUGH ? n : ENOUGH;
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)hash64(p, some, 0),
             (unsigned long long)hash64(p, some, 1));
}
