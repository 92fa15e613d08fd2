/* Alignment, zeroing, limits, reuse after reset. */
#include "common/test.h"

#include "common/arena.h"

#include <string.h>

static void test_alloc(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t n = 1; n < 5000; n = n * 3 + 1) {
        unsigned char *p = arena_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAB, n);
    }
    arena_reset(&a);
    unsigned char *p = arena_alloc(&a, 4000);
    assert_int_equal(p[0] | p[3999], 0);
    arena_free(&a);
}

static void test_limit_and_overflow(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 100);
    assert_non_null(arena_alloc(&a, 60));
    assert_null(arena_alloc(&a, 41));
    assert_non_null(arena_alloc(&a, 40));
    assert_null(arena_alloc(&a, 1));
    assert_null(arena_array(&a, SIZE_MAX / 2, 4));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 100));
    arena_free(&a);
}

static void test_reset_reuses_blocks(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    void *first = arena_alloc(&a, 100);
    for (int i = 0; i < 10; i++)
        assert_non_null(arena_alloc(&a, 10000));
    arena_reset(&a);
    assert_ptr_equal(arena_alloc(&a, 100), first);
    arena_free(&a);
}

static void test_text(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1000);
    struct str s = arena_printf(&a, "%d-%s", 7, "x");
    assert_str(s, "7-x");
    assert_int_equal(arena_str(&a, STR("abc")).p[3], '\0');
    assert_null(arena_printf(&a, "%2000d", 1).p);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_limit_and_overflow),
        cmocka_unit_test(test_reset_reuses_blocks),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
