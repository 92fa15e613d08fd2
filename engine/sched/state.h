/* engine/sched/state.h - the scheduler's insides, for its own files only.
 *
 * scheduler.c keeps the lists, admission.c moves sequences from waiting to running, plan.c shares
 * out the tokens of a step. */
#ifndef ENGINE_SCHED_STATE_H
#define ENGINE_SCHED_STATE_H

#include "engine/sched/pace.h"
#include "engine/sched/scheduler.h"
#include "engine/sched/share.h"

struct scheduler {
    struct sched_config config;
    struct kv_pool *pool;
    struct prefix_cache *cache; /* NULL when off */
    struct share share;
    struct pace pace;
    struct sequence *waiting, *waiting_last; /* by arrival; last is undefined when empty */
    uint32_t n_waiting, n_running, cap_running;
    struct sequence **running; /* [cap_running] in order of admission */
    uint32_t *planned;         /* [cap_running] tokens of this step */
    uint64_t n_plans;
    struct sched_counters counters;
    /* the plan's arrays */
    int32_t *token;
    uint32_t *position, *seq, *row_token;
    const uint32_t **tables;
    struct sequence **row_seq;
    uint32_t *copy_from, *copy_to, n_copies; /* [cap_running] done at the next step's beginning */
    struct sched_plan plan;
};

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Known tokens whose KV is not written. */
static inline uint32_t seq_n_left(const struct sequence *q)
{
    return q->n_tokens - q->n_computed;
}

/* One token from the next sampled one: it decodes. */
static inline bool seq_is_decoding(const struct sequence *q)
{
    return seq_n_left(q) == 1;
}

/* It waits for tokens that its leader has not computed yet. */
static inline bool seq_is_following(const struct sequence *q)
{
    return q->leader && q->leader->n_computed < q->n_awaited;
}

/* More than that. Nothing is left while its last token is being drawn. */
static inline bool seq_is_prompt(const struct sequence *q)
{
    return seq_n_left(q) > 1;
}

/* scheduler.c */
void sched_release_blocks(struct scheduler *s, struct sequence *q);
void sched_preempt(struct scheduler *s, uint32_t i); /* running[i] goes back to the waiting */
void sched_take_waiting(struct scheduler *s, struct sequence *q);
/* Level of a request now: its priority, and one more for each aging_us since it came. */
int64_t sched_level(const struct scheduler *s, const struct sequence *q, struct mono now);
/* plan.c: a free block with one reference, evicting a cached one when there is none. */
bool sched_take_block(struct scheduler *s, uint32_t *block);
/* admission.c: fills running[] while a step of `room` prompt tokens can use more. */
void sched_admit(struct scheduler *s, uint32_t room, struct mono now);

#endif
