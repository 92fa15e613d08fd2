/* The only file that knows xxHash and libcrypto. */
#include "common/hash.h"

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t hash64(const void *p, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(p, n, seed);
}

void hash128_hex(const void *p, size_t n, char out[33])
{
    XXH128_hash_t h = XXH3_128bits(p, n);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

/* The functions of OpenSSL 1: those of version 3 look their algorithm up at each call, which costs
 * more than the digest of a short text. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void sha256(struct str s, unsigned char out[SHA256_BYTES])
{
    SHA256_CTX c;
    if (!SHA256_Init(&c) || !SHA256_Update(&c, s.p ? s.p : "", s.n) || !SHA256_Final(out, &c))
        abort(); /* a chain without its digest must not go on */
}
#pragma GCC diagnostic pop

void hash_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = DIGITS[bytes[i] >> 4];
        out[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

void sha256_hex(struct str s, char out[SHA256_HEX])
{
    unsigned char digest[SHA256_BYTES];
    sha256(s, digest);
    hash_hex(digest, sizeof digest, out);
}

void hmac_sha256(struct str key, struct str s, unsigned char out[SHA256_BYTES])
{
    unsigned int n = 0;
    if (key.n > INT_MAX ||
        !HMAC(EVP_sha256(), key.p ? key.p : "", (int)key.n, (const unsigned char *)(s.p ? s.p : ""),
              s.n, out, &n) ||
        n != SHA256_BYTES)
        abort(); /* an unsigned message must not leave as a signed one */
}

void base64_encode(const unsigned char *bytes, size_t n, char *out)
{
    EVP_EncodeBlock((unsigned char *)out, bytes, (int)n);
}

bool base64_decode(struct str s, unsigned char *out, size_t cap, size_t *n)
{
    unsigned char text[4096];
    size_t padding = 0;
    if (s.n == 0 || s.n % 4 != 0 || s.n > sizeof text)
        return false;
    while (padding < 2 && s.p[s.n - 1 - padding] == '=')
        padding++;
    int got = EVP_DecodeBlock(text, (const unsigned char *)s.p, (int)s.n);
    if (got < 0 || (size_t)got - padding > cap)
        return false;
    *n = (size_t)got - padding;
    memcpy(out, text, *n);
    OPENSSL_cleanse(text, sizeof text);
    return true;
}

bool str_eq_constant_time(struct str a, struct str b)
{
    return a.n == b.n && CRYPTO_memcmp(a.p ? a.p : "", b.p ? b.p : "", a.n) == 0;
}
