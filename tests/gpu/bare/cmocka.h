/* tests/gpu/bare/cmocka.h - what the device suites use of cmocka's interface, for machines without
 * it. A failed assertion ends its test; the program's result is the number of failed tests, 77
 * where there is no device. The environment's TEST_FILTER: only tests whose names contain it. One
 * thread. */
#ifndef TESTS_GPU_BARE_CMOCKA_H
#define TESTS_GPU_BARE_CMOCKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

__attribute__((noreturn, format(printf, 3, 4))) void bare_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((noreturn)) void bare_skip(void);
int bare_run(const char *group, const struct CMUnitTest *tests, size_t n,
             int (*setup)(void **state), int (*teardown)(void **state));

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f                                                                                      \
    }
#define cmocka_run_group_tests_name(group, tests, setup, teardown)                                 \
    bare_run(group, tests, sizeof(tests) / sizeof *(tests), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#define fail_msg(...)      bare_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip()             bare_skip()
#define print_message(...) printf(__VA_ARGS__)

#define BARE_CHECK(condition, text)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            bare_fail(__FILE__, __LINE__, "%s", text);                                             \
    } while (0)
#define assert_true(x)               BARE_CHECK(x, #x)
#define assert_false(x)              BARE_CHECK(!(x), "not: " #x)
#define assert_non_null(p)           BARE_CHECK((p) != NULL, #p " is NULL")
#define assert_null(p)               BARE_CHECK((p) == NULL, #p " is not NULL")
#define assert_ptr_equal(a, b)       BARE_CHECK((a) == (b), #a " is not " #b)
#define assert_string_equal(a, b)    BARE_CHECK(strcmp(a, b) == 0, #a " is not " #b)
#define assert_memory_equal(a, b, n) BARE_CHECK(memcmp(a, b, n) == 0, #a " is not " #b)
#define assert_int_equal(a, b)                                                                     \
    bare_compare(__FILE__, __LINE__, #a, (long long)(a), (long long)(b), 1)
#define assert_int_not_equal(a, b)                                                                 \
    bare_compare(__FILE__, __LINE__, #a, (long long)(a), (long long)(b), 0)

static inline void bare_compare(const char *file, int line, const char *what, long long got,
                                long long want, bool is_equal)
{
    if ((got == want) != is_equal)
        bare_fail(file, line, "%s is %lld, want %s%lld", what, got, is_equal ? "" : "not ", want);
}

#endif
