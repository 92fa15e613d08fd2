/* common/rng.h - seeded random numbers, same sequence on every machine. Not for secrets.
 *
 * xoshiro256** seeded by splitmix64 (Blackman and Vigna, https://prng.di.unimi.it). One owner. */
#ifndef COMMON_RNG_H
#define COMMON_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
double rng_uniform(struct rng *r);                 /* [0,1), 53 bits */
uint64_t rng_below(struct rng *r, uint64_t bound); /* [0,bound), unbiased; bound > 0 */
double rng_normal(struct rng *r);                  /* mean 0, variance 1 (Box-Muller) */
uint64_t rng_splitmix(uint64_t *state);            /* also a good 64-bit mixer */
/* From the kernel; for seeds, ids and salts. */
uint64_t rng_entropy(void);

#endif
