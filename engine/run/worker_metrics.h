/* engine/run/worker_metrics.h - the engine's own numbers as Prometheus metrics.
 *
 * Those that differ by arm (time to first token, end to end) belong to the API, which knows arms.
 * Updated by the worker between steps: a few relaxed atomics, no lock, no memory. */
#ifndef ENGINE_RUN_WORKER_METRICS_H
#define ENGINE_RUN_WORKER_METRICS_H

#include "common/metrics.h"
#include "engine/run/worker.h"

struct worker_metrics {
    struct metric *running, *waiting, *kv_usage; /* NULL when there is no registry */
    struct metric *query_tokens, *hit_tokens, *prompt_tokens, *generation_tokens, *preemptions,
        *priority_preemptions;
    struct metric *evictions, *prefix_waits, *copied_blocks, *copied_tokens, *kv_cached;
    struct metric *draft_tokens, *draft_accepted;
    struct metric *step_seconds, *step_tokens, *comm_seconds, *comm_ratio;
    struct metric *device_draws, *host_draws;
    /* what the counters stand at */
    uint64_t query, hit, prompt, generation, preempted, priority_preempted, evicted, waited,
        copied_blocks_at, copied_tokens_at, device_drawn, host_drawn, drafted, accepted;
    double comm_s, step_s; /* since start */
};

void worker_metrics_init(struct worker_metrics *m, struct metrics *registry);
void worker_metrics_publish(struct worker_metrics *m, const struct worker_stats *s,
                            uint32_t n_kv_blocks);
/* comm_us: of duration_us, for the other ranks. */
void worker_metrics_step(struct worker_metrics *m, uint64_t duration_us, uint64_t comm_us,
                         uint32_t n_tokens);

#endif
