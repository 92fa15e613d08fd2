/* Counters grow by the difference to the worker's own totals, so that both always agree. */
#include "engine/run/worker_metrics.h"

#define DESC(type_, name_, help_)                                                                  \
    {                                                                                              \
        .name = name_, .help = help_, .type = type_                                                \
    }

static const struct metric_desc RUNNING =
    DESC(METRIC_GAUGE, "milepost_requests_running", "Requests in the batch.");
static const struct metric_desc WAITING =
    DESC(METRIC_GAUGE, "milepost_requests_waiting", "Requests that wait for a place.");
static const struct metric_desc KV_USAGE =
    DESC(METRIC_GAUGE, "milepost_kv_cache_usage_ratio", "Share of KV blocks that requests hold.");
static const struct metric_desc QUERY_TOKENS =
    DESC(METRIC_COUNTER, "milepost_prefix_cache_query_tokens_total",
         "Tokens looked up in the prefix cache.");
static const struct metric_desc HIT_TOKENS = DESC(
    METRIC_COUNTER, "milepost_prefix_cache_hit_tokens_total", "Tokens found in the prefix cache.");
static const struct metric_desc PROMPT_TOKENS =
    DESC(METRIC_COUNTER, "milepost_prompt_tokens_total",
         "Prompt tokens computed, after a preemption again.");
static const struct metric_desc GENERATION_TOKENS =
    DESC(METRIC_COUNTER, "milepost_generation_tokens_total", "Tokens generated.");
static const struct metric_desc PREEMPTIONS = DESC(METRIC_COUNTER, "milepost_preemptions_total",
                                                   "Requests put back to be computed again later.");
static const struct metric_desc PRIORITY_PREEMPTIONS =
    DESC(METRIC_COUNTER, "milepost_priority_preemptions_total",
         "Of these, requests put back for one of higher priority.");
static const struct metric_desc EVICTIONS =
    DESC(METRIC_COUNTER, "milepost_prefix_cache_evicted_blocks_total",
         "Blocks of the prefix cache taken for other tokens.");
static const struct metric_desc PREFIX_WAITS =
    DESC(METRIC_COUNTER, "milepost_prefix_waits_total",
         "Times a request waited for a prefix that another one was computing.");
static const struct metric_desc DRAFT_TOKENS =
    DESC(METRIC_COUNTER, "milepost_draft_tokens_total",
         "Tokens guessed and computed ahead of streams (engine.draft_tokens).");
static const struct metric_desc DRAFT_ACCEPTED =
    DESC(METRIC_COUNTER, "milepost_draft_accepted_tokens_total",
         "Of these, tokens that were then generated.");
static const struct metric_desc COPIED_BLOCKS =
    DESC(METRIC_COUNTER, "milepost_prefix_cache_copied_blocks_total",
         "Blocks copied because a shared prefix ends inside them.");
static const struct metric_desc COPIED_TOKENS =
    DESC(METRIC_COUNTER, "milepost_prefix_cache_copied_tokens_total",
         "Tokens found in the prefix cache by copying such blocks.");
static const struct metric_desc KV_CACHED =
    DESC(METRIC_GAUGE, "milepost_prefix_cache_blocks", "Blocks in the prefix cache, held or not.");
static const struct metric_desc STEP_SECONDS = {.name = "milepost_step_seconds",
                                                .help = "Duration of an engine step.",
                                                .type = METRIC_HISTOGRAM,
                                                .buckets = METRIC_SECONDS,
                                                .n_buckets = METRIC_SECONDS_N};
static const struct metric_desc STEP_TOKENS = {.name = "milepost_step_tokens",
                                               .help = "Tokens computed in an engine step.",
                                               .type = METRIC_HISTOGRAM,
                                               .buckets = METRIC_TOKENS,
                                               .n_buckets = METRIC_TOKENS_N};

static const struct metric_desc COMM_SECONDS =
    DESC(METRIC_COUNTER, "milepost_comm_seconds_total",
         "Time of engine steps that went to the other ranks (engine.tp_size).");
static const struct metric_desc COMM_RATIO =
    DESC(METRIC_GAUGE, "milepost_comm_ratio", "Share of the time of all engine steps of that.");
static const struct metric_desc DEVICE_DRAWS =
    DESC(METRIC_COUNTER, "milepost_device_draws_total", "Tokens drawn on the device of the model.");
static const struct metric_desc HOST_DRAWS =
    DESC(METRIC_COUNTER, "milepost_host_draws_total", "Tokens drawn from logits on the host.");

void worker_metrics_init(struct worker_metrics *m, struct metrics *registry)
{
    *m = (struct worker_metrics){
        .running = metrics_add_one(registry, &RUNNING),
        .waiting = metrics_add_one(registry, &WAITING),
        .kv_usage = metrics_add_one(registry, &KV_USAGE),
        .query_tokens = metrics_add_one(registry, &QUERY_TOKENS),
        .hit_tokens = metrics_add_one(registry, &HIT_TOKENS),
        .prompt_tokens = metrics_add_one(registry, &PROMPT_TOKENS),
        .generation_tokens = metrics_add_one(registry, &GENERATION_TOKENS),
        .preemptions = metrics_add_one(registry, &PREEMPTIONS),
        .priority_preemptions = metrics_add_one(registry, &PRIORITY_PREEMPTIONS),
        .evictions = metrics_add_one(registry, &EVICTIONS),
        .prefix_waits = metrics_add_one(registry, &PREFIX_WAITS),
        .draft_tokens = metrics_add_one(registry, &DRAFT_TOKENS),
        .draft_accepted = metrics_add_one(registry, &DRAFT_ACCEPTED),
        .copied_blocks = metrics_add_one(registry, &COPIED_BLOCKS),
        .copied_tokens = metrics_add_one(registry, &COPIED_TOKENS),
        .kv_cached = metrics_add_one(registry, &KV_CACHED),
        .step_seconds = metrics_add_one(registry, &STEP_SECONDS),
        .step_tokens = metrics_add_one(registry, &STEP_TOKENS),
        .comm_seconds = metrics_add_one(registry, &COMM_SECONDS),
        .comm_ratio = metrics_add_one(registry, &COMM_RATIO),
        .device_draws = metrics_add_one(registry, &DEVICE_DRAWS),
        .host_draws = metrics_add_one(registry, &HOST_DRAWS),
    };
}

static void catch_up(struct metric *counter, uint64_t *at, uint64_t total)
{
    metric_add(counter, (double)(total - *at));
    *at = total;
}

void worker_metrics_publish(struct worker_metrics *m, const struct worker_stats *s,
                            uint32_t n_kv_blocks)
{
    if (!m->running)
        return;
    metric_set(m->running, s->running);
    metric_set(m->waiting, s->waiting);
    metric_set(m->kv_usage, (double)s->kv_blocks_used / n_kv_blocks);
    catch_up(m->query_tokens, &m->query, s->query_tokens);
    catch_up(m->hit_tokens, &m->hit, s->cached_tokens);
    catch_up(m->prompt_tokens, &m->prompt, s->prompt_tokens);
    catch_up(m->generation_tokens, &m->generation, s->generated_tokens);
    catch_up(m->preemptions, &m->preempted, s->preemptions);
    catch_up(m->priority_preemptions, &m->priority_preempted, s->priority_preemptions);
    catch_up(m->evictions, &m->evicted, s->evictions);
    catch_up(m->prefix_waits, &m->waited, s->prefix_waits);
    catch_up(m->draft_tokens, &m->drafted, s->draft_tokens);
    catch_up(m->draft_accepted, &m->accepted, s->draft_accepted);
    catch_up(m->copied_blocks, &m->copied_blocks_at, s->copied_blocks);
    catch_up(m->copied_tokens, &m->copied_tokens_at, s->copied_tokens);
    catch_up(m->device_draws, &m->device_drawn, s->device_draws);
    catch_up(m->host_draws, &m->host_drawn, s->host_draws);
    metric_set(m->kv_cached, (double)s->kv_blocks_cached);
}

void worker_metrics_step(struct worker_metrics *m, uint64_t duration_us, uint64_t comm_us,
                         uint32_t n_tokens)
{
    if (!m->running)
        return;
    metric_observe(m->step_seconds, (double)duration_us * 1e-6);
    metric_observe(m->step_tokens, n_tokens);
    metric_add(m->comm_seconds, (double)comm_us * 1e-6);
    m->comm_s += (double)comm_us * 1e-6;
    m->step_s += (double)duration_us * 1e-6;
    metric_set(m->comm_ratio, m->step_s > 0 ? m->comm_s / m->step_s : 0);
}
