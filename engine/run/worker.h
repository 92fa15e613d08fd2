/* engine/run/worker.h - the engine thread: owns scheduler, sampler and (while it runs) the model.
 *
 * Sequences come in through one queue, events go out through the event channel; a cancel is a flag
 * on the sequence, looked at before each step. It plans a step and hands it to the device, then
 * takes the tokens of the step before, where the device draws them; idle it sleeps: no spinning. */
#ifndef ENGINE_RUN_WORKER_H
#define ENGINE_RUN_WORKER_H

#include "engine/run/events.h"
#include "engine/sched/scheduler.h"

struct worker;
struct worker_metrics;

/* What others may read at any time. */
struct worker_stats {
    _Atomic uint32_t running, waiting;
    _Atomic uint64_t kv_blocks_used, kv_blocks_cached, prompt_tokens, cached_tokens, query_tokens,
        generated_tokens;
    _Atomic uint64_t draft_tokens, draft_accepted;
    _Atomic uint64_t preemptions, priority_preemptions, evictions, prefix_waits, copied_blocks,
        copied_tokens, steps, device_draws, host_draws;
};

/* metrics may be NULL; workers that follow each other share them. */
MUST_USE int worker_start(struct worker **out, const struct gen_config *c,
                          struct event_channel *events, const struct worker_metrics *metrics,
                          struct err *e);
/* I/O thread; never blocks. False: more sequences than max_running + max_queue, or stopped. */
bool worker_submit(struct worker *w, struct sequence *q);
void worker_set_knobs(struct worker *w, uint32_t max_running, uint32_t prefill_chunk);
void worker_flush_cache(struct worker *w); /* before the next step */
/* Never blocks. The worker then ends everything with GEN_CANCELLED and posts the last batch; take
 * batches until it, then join. */
void worker_stop(struct worker *w);
/* Never blocks. As stop, but what was submitted is answered to its end first. */
void worker_retire(struct worker *w);
void worker_join_and_free(struct worker *w);
const struct worker_stats *worker_get_stats(const struct worker *w);

#endif
