/* What people type as a point in time. */
#include "common/test.h"

#include "controller/cli/since.h"

static void test_since(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds; /* -1: refused */
    } CASES[] = {
        {"90m", 1000000 - 5400},
        {"2h", 1000000 - 7200},
        {"7d", 1000000 - 604800},
        {"0s", 1000000},
        {"1970-01-02", 86400},
        {"2026-01-31", 1769817600},
        {"2026-01-31 12:30", 1769862600},
        {"2026-01-31T12:30:05Z", 1769862605},
        {"", -1},
        {"2", -1},
        {"-2h", -1},
        {"2 weeks", -1},
        {"2026-13-01", -1},
        {"2026-01-31 12:30 tomorrow", -1},
        {"99999999d", -1},
    };
    const struct wall now = {1000000ll * 1000000};

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct wall got = {0};
        struct err e = {0};
        int rc = since_parse(CASES[i].text, now, &got, &e);
        if (rc != (CASES[i].seconds < 0 ? ERR_INVALID : ERR_OK) ||
            (rc == ERR_OK && got.us != CASES[i].seconds * 1000000))
            fail_msg("'%s': rc %d, %lld s", CASES[i].text, rc, (long long)got.us / 1000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_since)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
