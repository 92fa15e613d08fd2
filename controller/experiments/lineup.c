/* controller/experiments/lineup.c - first come, first paired; see the header. Pure.
 *
 * Invariant: the rows of an arm that wait in a pair are the last `lead` ones of its ring, since a
 * row that meets a waiting partner is paired at once. */
#include "controller/experiments/lineup.h"

#include <string.h>

static const struct state_field RING_FIELDS[] = {
    STATE_LIMITED(struct lineup_ring, next, STATE_U32, LINEUP_WAITING - 1),
    STATE_NUMBERS(struct lineup_ring, low, STATE_F64, LINEUP_WAITING),
    STATE_NUMBERS(struct lineup_ring, high, STATE_F64, LINEUP_WAITING),
    STATE_END,
};

static const struct state_field STRATUM_FIELDS[] = {
    STATE_LIMITED(struct lineup_stratum, n_arm, STATE_U32, EXPERIMENT_ARMS),
    STATE_LIMITED(struct lineup_stratum, n_pair, STATE_U32, EXPERIMENT_PAIRS),
    STATE_USED(struct lineup_stratum, ring, EXPERIMENT_ARMS, n_arm, RING_FIELDS),
    {"lead", STATE_U32, offsetof(struct lineup_stratum, lead), 2 * LINEUP_WAITING, EXPERIMENT_PAIRS,
     offsetof(struct lineup_stratum, n_pair), NULL},
    STATE_END,
};

const struct state_field LINEUP_FIELDS[] = {
    STATE_LIMITED(struct lineup, n_arm, STATE_U32, EXPERIMENT_ARMS),
    STATE_LIMITED(struct lineup, n_strata, STATE_U32, POLICY_STRATA_MAX),
    STATE_USED(struct lineup, stratum, POLICY_STRATA_MAX, n_strata, STRATUM_FIELDS),
    STATE_NUMBER(struct lineup, n_dropped, STATE_U64),
    STATE_END,
};

void lineup_start(struct lineup *l, uint32_t n_arm)
{
    memset(l, 0, sizeof *l);
    l->n_arm = n_arm;
}

static struct lineup_stratum *stratum_of(struct lineup *l, uint32_t stratum)
{
    while (l->n_strata <= stratum) {
        struct lineup_stratum *s = &l->stratum[l->n_strata++];
        s->n_arm = l->n_arm;
        s->n_pair = l->n_arm * (l->n_arm - 1) / 2;
        for (uint32_t p = 0; p < s->n_pair; p++)
            s->lead[p] = LINEUP_EVEN;
    }
    return &l->stratum[stratum];
}

/* The row of an arm that came `back` rows ago, 1 = the last. */
static struct lineup_value row_back(const struct lineup_ring *r, uint32_t back)
{
    uint32_t at = (r->next + LINEUP_WAITING - back) % LINEUP_WAITING;
    return (struct lineup_value){r->low[at], r->high[at]};
}

uint32_t lineup_push(struct lineup *l, uint32_t stratum, uint32_t arm, struct lineup_value value,
                     const bool *is_out, struct lineup_block out[EXPERIMENT_ARMS])
{
    struct lineup_stratum *s = stratum_of(l, stratum);
    uint32_t n = 0;
    for (uint32_t other = 0; other < l->n_arm; other++) {
        if (other == arm || is_out[other])
            continue;
        bool is_first = arm < other;
        uint32_t *lead = &s->lead[is_first ? lineup_pair(arm, other) : lineup_pair(other, arm)];
        int waiting = (int)*lead - LINEUP_EVEN; /* of the first arm */
        int theirs = is_first ? -waiting : waiting;
        if (theirs > 0)
            out[n++] = (struct lineup_block){arm, other, value,
                                             row_back(&s->ring[other], (uint32_t)theirs)};
        if (theirs <= -LINEUP_WAITING)
            l->n_dropped++; /* the oldest of ours gives its place to this one */
        else
            *lead += is_first ? 1u : (uint32_t)-1;
    }
    struct lineup_ring *ring = &s->ring[arm];
    ring->low[ring->next] = value.low;
    ring->high[ring->next] = value.high;
    ring->next = (ring->next + 1) % LINEUP_WAITING;
    return n;
}
