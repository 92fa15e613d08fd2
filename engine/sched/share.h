/* engine/sched/share.h - how much each user has been served: the order of equal requests.
 *
 * Virtual token counters (https://arxiv.org/abs/2401.00588): whoever was served least goes next,
 * and a user who comes back is lifted to the least of those who stayed, so that idle time is not
 * saved up. Users fall into N_USER_BUCKETS by a salted hash (stochastic fairness queueing, McKenney
 * 1990): no memory grows with their number, and two that collide share one part. Worker thread. */
#ifndef ENGINE_SCHED_SHARE_H
#define ENGINE_SCHED_SHARE_H

#include <stdint.h>

enum { N_USER_BUCKETS = 1024 };
/* The paper's weights: an output token costs a whole step, prompt tokens are computed together. */
enum { SHARE_PROMPT_COST = 1, SHARE_OUTPUT_COST = 2 };

struct share_bucket {
    uint64_t served;
    uint32_t n_requests; /* waiting or running */
};

struct share {
    uint64_t salt, last_left; /* counter of the user that left last */
    uint32_t n_active;        /* buckets with requests */
    struct share_bucket bucket[N_USER_BUCKETS];
};

void share_init(struct share *s, uint64_t salt);
/* One more request of `user` (any hash; 0 = nobody in particular). Returns the bucket, which the
 * request keeps until share_leave. O(1), O(buckets) when the user had none. */
uint32_t share_join(struct share *s, uint64_t user);
void share_leave(struct share *s, uint32_t bucket);
void share_charge(struct share *s, uint32_t bucket, uint64_t cost);
uint64_t share_served(const struct share *s, uint32_t bucket);

#endif
