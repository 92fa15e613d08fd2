/* Algorithm 2 of https://arxiv.org/abs/2401.00588: counters rise with service and are lifted, never
 * lowered, when a user without requests brings one. Cached tokens cost nothing, nor does work that
 * a preemption made necessary again. */
#include "engine/sched/share.h"

#include "common/hash.h"

void share_init(struct share *s, uint64_t salt)
{
    *s = (struct share){.salt = salt};
}

static uint64_t least_served(const struct share *s)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < N_USER_BUCKETS; i++)
        if (s->bucket[i].n_requests && s->bucket[i].served < least)
            least = s->bucket[i].served;
    return least;
}

uint32_t share_join(struct share *s, uint64_t user)
{
    uint32_t i = (uint32_t)(hash64(&user, sizeof user, s->salt) % N_USER_BUCKETS);
    struct share_bucket *b = &s->bucket[i];
    if (b->n_requests == 0) {
        uint64_t floor = s->n_active ? least_served(s) : s->last_left;
        if (b->served < floor)
            b->served = floor;
        s->n_active++;
    }
    b->n_requests++;
    return i;
}

void share_leave(struct share *s, uint32_t bucket)
{
    struct share_bucket *b = &s->bucket[bucket];
    if (--b->n_requests == 0) {
        s->n_active--;
        s->last_left = b->served;
    }
}

void share_charge(struct share *s, uint32_t bucket, uint64_t cost)
{
    s->bucket[bucket].served += cost;
}

uint64_t share_served(const struct share *s, uint32_t bucket)
{
    return s->bucket[bucket].served;
}
