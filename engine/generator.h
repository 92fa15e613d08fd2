/* engine/generator.h - token ids in, sampled tokens out: the waist between API and computation.
 *
 * Implementations: `local` (engine/run: scheduler, model and sampler on a worker thread), later
 * `upstream` (another server over HTTP). Caller side is one thread, the I/O thread: submit, cancel
 * and drain are called there and never block; the worker reports through a queue whose fd becomes
 * readable, and drain then runs the callbacks on the I/O thread.
 *
 * Every accepted request gets zero or more GEN_TOKEN events and then exactly one GEN_END, also
 * after cancel, deadline, error and close. What the request borrows must live until GEN_END. */
#ifndef ENGINE_GENERATOR_H
#define ENGINE_GENERATOR_H

#include "common/clock.h"
#include "common/metrics.h"
#include "engine/model/model.h"
#include "schemas/params.h"

enum { GEN_MAX_TOP = 20, GEN_MAX_BIAS = 1024 };

enum gen_finish { GEN_STOP, GEN_LENGTH, GEN_CANCELLED, GEN_DEADLINE, GEN_ERROR };
const char *gen_finish_name(enum gen_finish f); /* "stop" "length" "cancelled" "deadline" "error" */

struct gen_top {
    int32_t token;
    float logprob;
};

struct gen_bias {
    int32_t token;
    float bias; /* added to the logit, [-100, 100] */
};

enum gen_event_type { GEN_TOKEN, GEN_END };

struct gen_event {
    enum gen_event_type type;
    /* GEN_TOKEN. An end token (eos) is not reported as a token. */
    int32_t token;
    float logprob;             /* ln p of the unmodified distribution (temperature 1) */
    const struct gen_top *top; /* [n_top], best first; borrowed during the callback */
    uint32_t n_top;
    /* GEN_END */
    enum gen_finish finish;
    uint32_t n_cached;                     /* prompt tokens found in the prefix cache */
    uint64_t queue_us, ttft_us, decode_us; /* admission to start, to first token, first to last */
    struct err err;                        /* for GEN_ERROR */
};

typedef void gen_event_fn(void *ctx, const struct gen_event *e);

typedef void gen_retired_fn(void *ctx, struct model *old);

struct gen_request {
    struct str id;         /* for logs */
    const int32_t *prompt; /* [n_prompt], n_prompt >= 1 */
    uint32_t n_prompt;
    struct params params; /* effective, every value set */
    uint64_t seed;        /* decides every draw of this request, at any batch size */
    const struct gen_bias *bias;
    uint32_t n_bias;
    bool want_logprobs;
    uint32_t n_top;       /* <= GEN_MAX_TOP */
    bool ignore_end;      /* go on after eos, until max_new_tokens */
    int priority;         /* higher first; 0 normal */
    uint64_t user;        /* hash of who is served; 0 = nobody in particular */
    uint64_t deadline_us; /* from submit; 0 = none */
    gen_event_fn *on_event;
    void *ctx;
};

struct gen_stats {
    uint32_t running, waiting;
    uint64_t kv_tokens, kv_tokens_used;
    uint64_t prompt_tokens, cached_tokens, generated_tokens, preemptions, steps;
    uint64_t device_draws, host_draws; /* where tokens were drawn */
    double tokens_per_second;          /* generated, over the last seconds */
};

struct gen_config {
    const struct clock *clock;
    struct model *model;    /* owned by the caller, used by the worker only until close */
    const int32_t *end_ids; /* [n_end] tokens that end a generation; copied */
    uint32_t n_end;
    uint32_t n_kv_blocks, max_batch_tokens, max_running, max_queue, prefill_chunk, max_context;
    uint64_t max_gap_us;   /* longest wanted step while streams run; 0 = always prefill_chunk */
    uint32_t draft_tokens; /* engine/sched/draft.h; 0 = none; none where the model's device draws */
    bool prefix_cache;
    bool is_static;          /* static batching, for comparisons */
    bool no_overlap;         /* plan a step when the one before has ended, for comparisons */
    struct metrics *metrics; /* may be NULL */
};

/* Most rows with logits in a step: of every running sequence, or of few and what is drafted. */
static inline uint32_t gen_max_rows(uint32_t max_running, uint32_t draft_tokens)
{
    return max_running > draft_tokens ? max_running : draft_tokens + 1;
}

struct generator;
struct gen_handle {
    uint64_t v; /* 0 = none */
};

struct generator_ops {
    const char *name;
    int (*open)(struct generator **out, const struct gen_config *c, struct err *e);
    /* Cancels everything; the remaining GEN_END events are delivered inside the call. */
    void (*close)(struct generator *g);
    /* ERR_BUSY: queue full (503, Retry-After). ERR_INVALID: prompt + max_new_tokens cannot fit. */
    int (*submit)(struct generator *g, const struct gen_request *r, struct gen_handle *out,
                  struct err *e);
    /* Takes effect before the next step is planned; GEN_END follows. Unknown handles are ignored.
     */
    void (*cancel)(struct generator *g, struct gen_handle h);
    int (*fd)(struct generator *g);
    void (*drain)(struct generator *g);
    /* Scheduler knobs of the desired state, applied between steps. 0 = leave. */
    void (*set_knobs)(struct generator *g, uint32_t max_running, uint32_t prefill_chunk);
    /* Forgets computed prefixes that no request holds, before the next step. */
    void (*flush_cache)(struct generator *g);
    /* Requests submitted from now on run on `m`, opened with the same options and vocabulary; those
     * accepted before end on the model they began with, side by side. on_retired then hands that
     * one back, from drain or close. ERR_BUSY: the model before it is still in use. */
    int (*set_model)(struct generator *g, struct model *m, gen_retired_fn *on_retired, void *ctx,
                     struct err *e);
    void (*stats)(struct generator *g, struct gen_stats *out);
};

extern const struct generator_ops GENERATOR_LOCAL;

#endif
