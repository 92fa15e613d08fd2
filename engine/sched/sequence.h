/* engine/sched/sequence.h - one request inside the scheduler: its tokens, its blocks, its progress.
 *
 * Allocated at submit, off the worker thread; between submit and its end only the worker touches
 * it. No HTTP, no text, no thread here. */
#ifndef ENGINE_SCHED_SEQUENCE_H
#define ENGINE_SCHED_SEQUENCE_H

#include "engine/generator.h"
#include "engine/sched/draft.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_ENDED };

struct sequence {
    struct gen_request request; /* borrowed parts live until GEN_END */
    uint64_t handle;
    enum seq_state state;
    struct sequence *next; /* in the waiting list */

    int32_t *tokens; /* [n_capacity] prompt, then output, of which the last one may be expected
                        only; behind them open tokens of a draft */
    uint32_t n_tokens, n_capacity, n_computed; /* n_computed: positions whose KV is written */
    uint32_t *blocks;                          /* [n_capacity / KV_BLOCK_TOKENS, rounded up] */
    uint32_t n_blocks;
    uint32_t cache_entry; /* prefix cache entry of the last block that is in it */
    uint32_t n_in_cache;  /* blocks known to the prefix cache, from the first */
    uint32_t n_cached;    /* prompt tokens found in the cache at first admission */
    uint32_t n_preempted;
    struct draft draft;
    uint32_t n_charged;      /* positions its user has paid for */
    uint32_t user;           /* bucket of engine/sched/share.h */
    uint64_t tried;          /* number of the last plan that looked at it */
    struct sequence *leader; /* running one whose first n_awaited tokens are its own; or NULL */
    uint32_t n_awaited;
    uint32_t n_followers; /* how many have it as leader, as of the last plan */

    _Atomic bool cancelled; /* set by the I/O thread, read between steps */
    bool started;
    bool is_over; /* static batching: waits for the rest of its batch, with `finish` */
    enum gen_finish finish;
    struct mono submitted, start, first_token, last_token;
};

static inline uint32_t seq_n_output(const struct sequence *s)
{
    return s->n_tokens - s->request.n_prompt;
}

/* ERR_NOMEM. Copies the prompt. */
MUST_USE int seq_new(struct sequence **out, const struct gen_request *r, struct mono now,
                     struct err *e);
void seq_free(struct sequence *s);

#endif
