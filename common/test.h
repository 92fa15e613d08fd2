/* common/test.h - cmocka with the headers it needs first; for *_test.c files only. */
#ifndef COMMON_TEST_H
#define COMMON_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/str.h"

#define assert_ok(call, e)                                                                         \
    do {                                                                                           \
        if ((call) != ERR_OK)                                                                      \
            fail_msg("%s: %s", #call, (e)->msg);                                                   \
    } while (0)

#define assert_str(s, expected)                                                                    \
    do {                                                                                           \
        struct str got_ = (s);                                                                     \
        if (!str_eq_c(got_, (expected)))                                                           \
            fail_msg("got '" STR_FMT "', want '%s'", STR_ARG(got_), (expected));                   \
    } while (0)

#endif
