/* Half floats bit by bit, block formats by hand-made blocks. The same formats are checked against
 * an independent implementation through tests/golden/logits. */
#include "common/test.h"

#include "kernels/dtype.h"

#include <math.h>
#include <string.h>

static void test_every_half_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(f16_to_f32(f32_to_f16(f))));
        else
            assert_int_equal(f32_to_f16(f), h);
    }
    assert_true(f16_to_f32(0x3C00) == 1 && f16_to_f32(0xC000) == -2);
    assert_true(f16_to_f32(0x0001) == 0x1p-24f && f16_to_f32(0x7BFF) == 65504);
    assert_true(isinf(f16_to_f32(0xFC00)));
}

static void test_rounding_to_half(void **state)
{
    (void)state;
    assert_int_equal(f32_to_f16(1 + 0x1p-11f), 0x3C00);     /* tie to even: down */
    assert_int_equal(f32_to_f16(1 + 3 * 0x1p-11f), 0x3C02); /* tie to even: up */
    assert_int_equal(f32_to_f16(1 + 0x1p-11f + 0x1p-20f), 0x3C01);
    assert_int_equal(f32_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(f32_to_f16(65520), 0x7C00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0); /* tie to even: zero */
    assert_int_equal(f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(f32_to_f16(-1e30f), 0xFC00);
}

/* d = 2, m = 1, all values 5 (and 21 with the fifth bit). */
static void test_blocks_of_32(void **state)
{
    (void)state;
    float out[32];
    uint8_t q4_1[20] = {0x00, 0x40, 0x00, 0x3C};
    memset(q4_1 + 4, 0x75, 16);
    dtype_to_f32(DTYPE_Q4_1, q4_1, out, 32);
    assert_true(out[0] == 11 && out[15] == 11 && out[16] == 15 && out[31] == 15);
    uint8_t q4_0[18] = {0x00, 0x40};
    memset(q4_0 + 2, 0x75, 16);
    dtype_to_f32(DTYPE_Q4_0, q4_0, out, 32);
    assert_true(out[0] == -6 && out[31] == -2);
    uint8_t q5_0[22] = {0x00, 0x40, 0x01, 0x00, 0x00, 0x80}; /* fifth bit of 0 and 31 */
    memset(q5_0 + 6, 0x75, 16);
    dtype_to_f32(DTYPE_Q5_0, q5_0, out, 32);
    assert_true(out[0] == 2 * (21 - 16) && out[1] == 2 * (5 - 16) && out[31] == 2 * (23 - 16));
    uint8_t q5_1[24] = {0x00, 0x40, 0x00, 0x3C, 0x01};
    memset(q5_1 + 8, 0x75, 16);
    dtype_to_f32(DTYPE_Q5_1, q5_1, out, 32);
    assert_true(out[0] == 43 && out[1] == 11 && out[31] == 15);
    uint8_t q8_0[34] = {0x00, 0x40, 0x80, 0x7F};
    dtype_to_f32(DTYPE_Q8_0, q8_0, out, 32);
    assert_true(out[0] == -256 && out[1] == 254 && out[2] == 0);
}

static void test_k_blocks(void **state)
{
    (void)state;
    float out[256];
    /* d = 1, dmin = 1; sub-block 0: scale 3, min 2; sub-block 4: scale 0x23, min 0x11. */
    uint8_t q4[144] = {0x00, 0x3C, 0x00, 0x3C, 3 | 2 << 6, 0, 0, 0, 2 | 1 << 6, 0, 0, 0, 0x13};
    memset(q4 + 16, 0x75, 128);
    dtype_to_f32(DTYPE_Q4_K, q4, out, 256);
    assert_true(out[0] == 3 * 5 - 2 && out[32] == 0);
    assert_true(out[128] == 0x23 * 5 - 0x11 && out[160] == 0);
    uint8_t q5[176] = {0x00, 0x3C, 0x00, 0x3C, 3 | 2 << 6, 0, 0, 0, 2 | 1 << 6, 0, 0, 0, 0x13};
    memset(q5 + 16, 0x11, 32); /* fifth bit of sub-blocks 0 and 4 */
    memset(q5 + 48, 0x75, 128);
    dtype_to_f32(DTYPE_Q5_K, q5, out, 256);
    assert_true(out[0] == 3 * 21 - 2 && out[128] == 0x23 * 21 - 0x11);
    uint8_t q6[210] = {0};
    memset(q6, 0x75, 128);
    q6[128] = 0xE4; /* high pairs of lane 0: 0, 1, 2, 3 */
    for (int i = 0; i < 16; i++)
        q6[192 + i] = (uint8_t)(i - 8);
    q6[209] = 0x3C; /* d = 1 */
    dtype_to_f32(DTYPE_Q6_K, q6, out, 256);
    assert_true(out[0] == -8 * (5 - 32) && out[32] == -6 * (5 + 16 - 32));
    assert_true(out[64] == -4 * (7 + 32 - 32) && out[96] == -2 * (7 + 48 - 32));
    assert_true(out[255] == 7 * (7 - 32));
}

static void test_layouts(void **state)
{
    (void)state;
    uint32_t elements;
    size_t bytes;
    assert_false(dtype_layout(999, &elements, &bytes));
    assert_true(dtype_layout(DTYPE_Q6_K, &elements, &bytes) && elements == 256 && bytes == 210);
    for (uint32_t type = 0; type < 64; type++) /* the list in messages is complete */
        if (dtype_layout(type, &elements, &bytes))
            assert_non_null(strstr(dtype_known_names(), dtype_name(type)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_round_trips),
        cmocka_unit_test(test_rounding_to_half),
        cmocka_unit_test(test_blocks_of_32),
        cmocka_unit_test(test_k_blocks),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
