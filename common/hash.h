/* common/hash.h - digests. XXH3 for tables and buckets (not against an adversary), SHA-256 for the
 * decision chain and revision hashes (FIPS 180-4, by libcrypto). Thread-safe. */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include "common/str.h"

enum { SHA256_BYTES = 32, SHA256_HEX = 65 }; /* 64 digits and NUL */

uint64_t hash64(const void *p, size_t n, uint64_t seed);
/* 32 hex digits and NUL. */
void hash128_hex(const void *p, size_t n, char out[33]);
void sha256(struct str s, unsigned char out[SHA256_BYTES]);
/* 2n lower case digits and NUL. */
void hash_hex(const unsigned char *bytes, size_t n, char *out);
void sha256_hex(struct str s, char out[SHA256_HEX]);
/* RFC 2104 with SHA-256. */
void hmac_sha256(struct str key, struct str s, unsigned char out[SHA256_BYTES]);
/* RFC 4648 with padding, NUL-terminated: 4 * ((n + 2) / 3) + 1 bytes. */
void base64_encode(const unsigned char *bytes, size_t n, char *out);
/* Into at most cap bytes; false: not base64, or longer than that. */
bool base64_decode(struct str s, unsigned char *out, size_t cap, size_t *n);
/* Same time whatever the content; for keys. */
bool str_eq_constant_time(struct str a, struct str b);

#endif
