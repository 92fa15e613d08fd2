/* Memory of a device: where it begins, what it holds, what is refused. */
#include "common/test.h"

#include "kernels/cpu/memory.h"

#include <stdint.h>

enum { HUGE_PAGE = 2 << 20 };

/* What does not fill a huge page stays small. Fails with a plain mmap before Linux 6.7. */
static void test_begins_at_a_huge_page(void **state)
{
    (void)state;
    struct memory m = {0};
    const char *small = memory_take(&m, 1, 100), *large = memory_take(&m, 20, 1 << 20);
    assert_non_null(small);
    assert_non_null(large);
    assert_int_equal((uintptr_t)small % HUGE_PAGE, 64);
    assert_int_equal((uintptr_t)large % HUGE_PAGE, 64);
    memory_free(&m);
}

static void test_is_zeroed_apart_and_aligned(void **state)
{
    (void)state;
    struct memory m = {.has_small_pages = true};
    char *a = memory_take(&m, 3, 7), *b = memory_take(&m, 9, 4 << 20);
    assert_non_null(a);
    assert_non_null(b);
    for (int i = 0; i < 21; i++)
        assert_int_equal(a[i], 0);
    assert_int_equal(b[0], 0);
    assert_int_equal(b[(36 << 20) - 1], 0);
    b[(36 << 20) - 1] = 1;
    char *c = memory_take(&m, 1, 1);
    assert_non_null(c);
    assert_true(c < b || c >= b + (36 << 20));
    assert_int_equal((uintptr_t)c % 64, 0);
    memory_free(&m);
}

static void test_refuses_what_no_machine_has(void **state)
{
    (void)state;
    struct memory m = {0};
    assert_null(memory_take(&m, SIZE_MAX / 2, 3));
    assert_null(memory_take(&m, SIZE_MAX / 4, 1));
    memory_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_at_a_huge_page),
        cmocka_unit_test(test_is_zeroed_apart_and_aligned),
        cmocka_unit_test(test_refuses_what_no_machine_has),
    };
    return cmocka_run_group_tests_name("kernels.memory", tests, NULL, NULL);
}
