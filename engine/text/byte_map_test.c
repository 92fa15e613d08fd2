/* Every byte has exactly one code point; known pairs; what stands for nothing is refused. */
#include "common/test.h"

#include "engine/text/byte_map.h"

static void test_bijection(void **state)
{
    (void)state;
    int seen[256] = {0};
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        int byte = byte_map_from_cp(cp);
        if (byte < 0)
            continue;
        assert_in_range(byte, 0, 255);
        seen[byte]++;
    }
    for (int i = 0; i < 256; i++)
        assert_int_equal(seen[i], 1);
}

static void test_known(void **state)
{
    (void)state;
    assert_int_equal(byte_map_from_cp(0x120), ' ');  /* U+0120 is the space of every vocabulary */
    assert_int_equal(byte_map_from_cp(0x10A), '\n'); /* U+010A */
    assert_int_equal(byte_map_from_cp(0x143), 0xAD);
    assert_int_equal(byte_map_from_cp(0x142), 0xA0);
    char out[16];
    assert_int_equal(byte_map_decode(STR("\xC4\xA0the"), out), 4);
    assert_memory_equal(out, " the", 4);
    assert_int_equal(byte_map_decode(STR("a b"), out), -1);
    assert_int_equal(byte_map_decode(STR("\xE2\x96\x81"), out), -1);
    assert_int_equal(byte_map_decode(STR("a\xFF"), out), -1);
    assert_int_equal(byte_map_decode(STR(""), out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bijection),
        cmocka_unit_test(test_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
