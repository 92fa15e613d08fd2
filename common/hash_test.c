/* Published test vectors. */
#include "common/test.h"

#include "common/hash.h"

static void test_sha256(void **state)
{
    (void)state;
    char hex[SHA256_HEX]; /* FIPS 180-4 examples: "abc" and the empty message */
    sha256_hex(STR("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex((struct str){NULL, 0}, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_xxh3(void **state)
{
    (void)state;
    assert_true(hash64("", 0, 0) == 0x2D06800538D394C2u); /* xxHash's own sanity test */
    char hex[33];
    hash128_hex("", 0, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
    assert_true(hash64("a", 1, 1) != hash64("a", 1, 2));
}

static void test_constant_time_compare(void **state)
{
    (void)state;
    assert_true(str_eq_constant_time(STR("key"), STR("key")));
    assert_false(str_eq_constant_time(STR("key"), STR("kez")));
    assert_false(str_eq_constant_time(STR("key"), STR("keys")));
    assert_true(str_eq_constant_time((struct str){NULL, 0}, STR("")));
}

static void test_hmac(void **state)
{
    (void)state;
    unsigned char mac[SHA256_BYTES]; /* RFC 4231, test case 2 */
    char hex[SHA256_HEX];
    hmac_sha256(STR("Jefe"), STR("what do ya want for nothing?"), mac);
    hash_hex(mac, sizeof mac, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void test_base64(void **state)
{
    (void)state;
    static const char *const PAIRS[][2] = {/* RFC 4648, 10 */
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        struct str plain = str_from(PAIRS[i][0]);
        char text[16];
        unsigned char bytes[16];
        size_t n = 0;
        base64_encode((const unsigned char *)plain.p, plain.n, text);
        assert_string_equal(text, PAIRS[i][1]);
        assert_true(base64_decode(str_from(text), bytes, sizeof bytes, &n));
        assert_int_equal(n, plain.n);
        assert_memory_equal(bytes, plain.p, n);
        assert_false(base64_decode(str_from(text), bytes, n - 1, &n));
    }
    unsigned char bytes[16];
    size_t n;
    assert_false(base64_decode(STR("Zm9"), bytes, sizeof bytes, &n));
    assert_false(base64_decode(STR("Zm$v"), bytes, sizeof bytes, &n));
    assert_false(base64_decode(STR(""), bytes, sizeof bytes, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_xxh3),
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_constant_time_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
