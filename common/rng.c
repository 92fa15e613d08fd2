/* xoshiro256** with splitmix64 seeding, as published by its authors. */
#include "common/rng.h"

#include <math.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t rng_splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = rng_splitmix(&seed);
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double rng_uniform(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    uint64_t reject_below = -bound % bound; /* 2^64 mod bound */
    uint64_t x;
    do
        x = rng_u64(r);
    while (x < reject_below);
    return x % bound;
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * rng_uniform(r));
}

uint64_t rng_entropy(void)
{
    uint64_t x;
    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        abort(); /* no kernel randomness: ids would collide */
    return x;
}
