/* e4m3 against the format's definition: every byte, what lies between two, and the edges. */
#include "common/test.h"

#include "kernels/fp8.h"

#include <math.h>

enum { CODES = 0x7F }; /* 0 to 448 */

static void test_values(void **state)
{
    (void)state;
    assert_true(fp8_to_f32(0x38) == 1 && fp8_to_f32(0x7E) == 448 && fp8_to_f32(0xBC) == -1.5f);
    assert_true(fp8_to_f32(0x01) == 0x1p-9f && fp8_to_f32(0x08) == 0x1p-6f);
    for (unsigned b = 1; b < CODES; b++)
        assert_true(fp8_to_f32((uint8_t)b) > fp8_to_f32((uint8_t)(b - 1)));
}

/* Each value is itself; the middle of two goes to the even one, beside it to the nearer. */
static void test_rounding(void **state)
{
    (void)state;
    for (unsigned b = 0; b + 1 < CODES; b++) {
        float low = fp8_to_f32((uint8_t)b), high = fp8_to_f32((uint8_t)(b + 1));
        float middle = (low + high) / 2;
        assert_int_equal(fp8_from_f32(low), b);
        assert_int_equal(fp8_from_f32(-high), 0x80 | (b + 1));
        assert_int_equal(fp8_from_f32(middle), b + b % 2);
        assert_int_equal(fp8_from_f32(nextafterf(middle, 0)), b);
        assert_int_equal(fp8_from_f32(nextafterf(middle, 500)), b + 1);
    }
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(fp8_from_f32(448), 0x7E);
    assert_int_equal(fp8_from_f32(1e30f), 0x7E);
    assert_int_equal(fp8_from_f32(-INFINITY), 0xFE);
    assert_int_equal(fp8_from_f32(NAN) & 0x7F, 0x7E);
    assert_int_equal(fp8_from_f32(1e-40f), 0);
    assert_true(fp8_step(0) == 1 && fp8_step(INFINITY) == 1 && fp8_step(NAN) == 1);
    assert_true(fp8_step(896) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_rounding),
                                       cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests_name("kernels.fp8", tests, NULL, NULL);
}
