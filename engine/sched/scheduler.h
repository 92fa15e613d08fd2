/* engine/sched/scheduler.h - decides what each step computes. No thread, no clock, no model.
 *
 * Continuous batching (Orca, OSDI 2022): sequences join and leave between steps. A step takes one
 * token of every decoding sequence, then prompt chunks (Sarathi, https://arxiv.org/abs/2308.16369)
 * of running and newly admitted ones, as many as fit into max_gap_us by what steps took lately.
 * Requests that share a prefix nobody has computed yet wait for the one that computes it. When
 * blocks run out the youngest sequence of the lowest priority is preempted: its blocks go, its
 * tokens stay, and it is computed again later with the same result. */
#ifndef ENGINE_SCHED_SCHEDULER_H
#define ENGINE_SCHED_SCHEDULER_H

#include "engine/sched/kv_pool.h"
#include "engine/sched/prefix_cache.h"
#include "engine/sched/sequence.h"

struct sched_config {
    uint32_t n_kv_blocks, max_batch_tokens, max_running, prefill_chunk;
    uint64_t max_gap_us;   /* longest wanted step while streams run; 0 = always prefill_chunk */
    uint32_t draft_tokens; /* most of a step, with the decodes one more (draft.h); 0 = none */
    uint64_t aging_us;     /* waiting this long counts as one level of priority */
    bool prefix_cache;
    bool is_static; /* all slots start and end together, for comparisons only */
    uint64_t salt;
};

/* One step. Arrays belong to the scheduler and hold until the next sched_plan. */
struct sched_plan {
    struct model_batch batch;
    struct sequence *const *row_seq; /* [batch.n_row] whose next token row i gives; where it has a
                                        draft, the ones after that follow */
    uint32_t n_decode, n_prompt;     /* tokens that are decodes or drafts, and the others */
};

struct sched_counters {
    uint64_t preemptions;          /* all */
    uint64_t priority_preemptions; /* of these, for a request of higher priority */
    uint64_t query_tokens, hit_tokens;
    uint64_t evictions;                    /* blocks */
    uint64_t copied_blocks, copied_tokens; /* hits that end inside a block others use */
    uint64_t draft_tokens;                 /* computed */
    uint64_t prefix_waits; /* times a request waited for a prefix that another was computing */
};

struct scheduler;

MUST_USE int sched_open(struct scheduler **out, const struct sched_config *c, struct err *e);
void sched_close(struct scheduler *s); /* sequences stay the caller's */
void sched_add(struct scheduler *s, struct sequence *q);
/* Takes it out whatever its state and frees its blocks; state becomes SEQ_ENDED. */
void sched_remove(struct scheduler *s, struct sequence *q);
/* Static batching: q has all its tokens, and its slot is computed on until the whole batch is over;
 * then remove all of it. What a row of an over sequence gives is nobody's. */
void sched_finish(struct scheduler *s, struct sequence *q);
bool sched_batch_is_over(const struct scheduler *s);
/* Plans a step; batch.n_tok is 0 when there is nothing to do. now orders by age. */
void sched_plan(struct scheduler *s, struct mono now, struct sched_plan *out);
/* After the forward pass: KV of the planned tokens is written; full blocks enter the cache. */
void sched_computed(struct scheduler *s);
/* Instead, when it failed and all running sequences were removed: what the planned blocks hold is
 * not known, so the cache starts anew. */
void sched_failed(struct scheduler *s);
/* What a step of so many tokens took from plan to last sample: the pace of the next ones. */
void sched_took(struct scheduler *s, uint32_t n_decode, uint32_t n_prompt, uint64_t step_us);
/* Appends a sampled token to a sequence of the plan, in the place of an expected one. Of its rows
 * those after a draft's first wrong token (draft.n_right did not grow) are nobody's. */
void seq_append(struct sequence *q, int32_t token);
/* To plan a step before the one under way has ended: the sequence's next token is the one that
 * `row` of that step draws (model_batch.token says how). Append it, or forget it, before
 * sched_computed. Nothing is expected past max_new_tokens. */
void seq_expect(struct sequence *q, uint32_t row);
void seq_forget_expected(struct sequence *q);

void sched_set_knobs(struct scheduler *s, uint32_t max_running, uint32_t prefill_chunk);
uint32_t sched_n_running(const struct scheduler *s);
uint32_t sched_n_waiting(const struct scheduler *s);
struct sequence *sched_running_at(const struct scheduler *s, uint32_t i);
struct sequence *sched_first_waiting(const struct scheduler *s); /* follow ->next */
const struct sched_counters *sched_get_counters(const struct scheduler *s);
const struct kv_pool *sched_pool(const struct scheduler *s);
/* Blocks some sequence holds: what only the prefix cache holds can be had back and is not counted.
 */
uint32_t sched_blocks_in_use(const struct scheduler *s);
uint32_t sched_blocks_cached(const struct scheduler *s); /* in the prefix cache, held or not */
void sched_flush_cache(struct scheduler *s);

#endif
