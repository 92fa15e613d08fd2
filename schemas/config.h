/* schemas/config.h - the one configuration file of all three processes (deploy/milepost.yaml).
 *
 * Tables in config.c hold every key's default, range, unit and sentence. Each process reads the
 * whole file, so that a mistake anywhere is found by whoever starts first. */
#ifndef SCHEMAS_CONFIG_H
#define SCHEMAS_CONFIG_H

#include "common/config.h"
#include "schemas/params.h"

struct engine_config {
    struct str id;          /* engine id; "" = host name and port */
    struct str model;       /* path of the GGUF file */
    struct str served_name; /* name in the API; "" = from the file */
    struct str host;
    int64_t port;
    int device; /* 0 auto, 1 cuda, 2 simt, 3 cpu, 4 ref */
    int64_t threads;
    int64_t tp_size;          /* processes that compute the model together */
    struct str chat_template; /* "" = recognised from the file */
    int64_t max_context, max_running, max_queue, max_batch_tokens, prefill_chunk;
    int64_t max_gap_ms;   /* longest step wanted while streams run; 0 = no limit */
    int64_t draft_tokens; /* most tokens guessed ahead in a step; 0 = none */
    int batching;         /* 0 continuous, 1 static */
    int64_t kv_tokens;   /* size of the KV pool in tokens; 0 = from mem_fraction or kv_memory_mib */
    double mem_fraction; /* of usable memory, weights + KV; 0 = from kv_memory_mib */
    int64_t kv_memory_mib;
    int kv_dtype; /* 0 f16, 1 int8, 2 bf16, 3 fp8 */
    int weights;  /* 0 as in the file, 1 bf16 as fp8 */
    int gemm;     /* 0 own, 1 cublaslt */
    int64_t max_body_bytes, request_timeout_ms, idle_timeout_ms, max_connections;
    bool prefix_cache;
    struct str api_key_file, admin_key_file; /* "" = no key; or env MILEPOST_API_KEY */
};

struct loop_config {                     /* the wires between the processes */
    bool enabled;                        /* false = engine serves alone (--no-loop) */
    struct str outputs, scores, control; /* bus addresses */
    struct str curve_dir;                /* key files; needed when an address is not loopback */
    struct str outbox;                   /* path of the engine's outbox */
    int outbox_sync;                     /* 0 normal, 1 full */
    int64_t outbox_max_mib, resend_ms, heartbeat_ms;
};

enum { CHECK_SET_A, CHECK_SET_B };

struct check_config {
    struct str id, kind;
    int set;       /* CHECK_SET_*: what is optimised, or what only gates promotion */
    double sample; /* share of the outputs that a check of set B judges */
    double weight;
    bool gate;
    int64_t timeout_ms;
    int on_error;      /* 0 unscored, 1 fail */
    struct str params; /* per-kind keys, canonical JSON object */
};

enum { LENGTH_RESIDUAL_AUTO, LENGTH_RESIDUAL_NEVER, LENGTH_RESIDUAL_ALWAYS };

struct policy_config { /* CONTROL.md; keys a policy does not use are ignored by it */
    int kind;          /* 0 hold, 1 threshold, 2 canary */
    double alpha, epsilon, promote_alpha;
    double guardrail_epsilon;  /* growth of a bad event's share that is tolerated */
    int64_t min_units;         /* challenger floor before a rollback may act */
    struct cfg_text_list ramp; /* "0.01","0.05","0.1","0.5" */
    int64_t ramp_units;        /* scored challenger units before a step up */
    int64_t controls_per_block, pair_deadline_ms, max_units, max_minutes;
    int64_t min_minutes; /* one traffic cycle: no promotion before */
    double now_share;    /* of the challenger after --now */
    double target;       /* reward under which the policy proposes; 0 = never */
    int64_t calibration_units;
    double drift_threshold;
    double temperature_step, temperature_min, max_new_tokens_factor;
    int64_t max_new_tokens_min;
    int64_t window; /* threshold policy: last N */
    double bound;   /* threshold policy: mean under which it steps */
    int64_t cooldown_units;
    bool propose;                       /* may the policy make its own challengers */
    double length_ratio, latency_ratio; /* of the arms' means, that guardrails tolerate */
    int length_residual;                /* LENGTH_RESIDUAL_* */
    int64_t session_ms, stale_ms;
};

struct bound_config { /* of a knob on one route, narrower than the table in schemas/params.h */
    struct str knob;
    double min, max, step; /* step: most by which one revision differs from the one that serves */
};

struct route_config {
    struct str name;
    struct str params;      /* first revision, JSON object text (from a YAML mapping) */
    struct cfg_list bounds; /* of struct bound_config */
    struct cfg_list checks; /* of struct check_config */
    struct policy_config policy;
};

struct verifier_config {
    struct str id, host;
    int64_t port; /* metrics, health, POST /score */
    int64_t threads, max_queue;
    struct str api_key_file;
};

struct webhook_config { /* controller/webhooks.h */
    struct str name, url, secret_file;
    struct cfg_text_list events; /* actions of decisions, "finetune", or "all" */
    int64_t timeout_ms, retry_ms, give_up_minutes;
};

struct controller_config {
    struct str host;
    int64_t port;
    struct str database;
    struct str admin_key_file;
    struct cfg_list webhooks; /* of struct webhook_config */
    struct str datasets;      /* folder of exported datasets */
    bool finetune_when_low;
    int64_t finetune_days;
    int64_t batch_rows, batch_ms;
    int64_t keep_texts_days, keep_sums_days; /* 0 = for ever */
    int64_t engine_stale_ms;
};

struct milepost_config {
    struct engine_config engine;
    struct loop_config loop;
    struct verifier_config verifier;
    struct controller_config controller;
    struct cfg_list routes; /* of struct route_config; the first is the default */
    struct str state_dir;   /* relative paths above start here */
    struct str log_level;
};

extern const struct cfg_table MILEPOST_CONFIG;

MUST_USE int milepost_config_load(const char *path, const char *const *overrides,
                                  size_t n_overrides, struct arena *a, struct milepost_config *out,
                                  struct err *e);
bool milepost_config_wants(const struct webhook_config *w, struct str event);
/* What a revision of this route may set the knob to; r NULL = any. */
struct bound_config route_config_bound(const struct route_config *r, enum param_id knob);
const struct route_config *milepost_config_route(const struct milepost_config *c, struct str name);
/* path as it is when absolute, else below state_dir; NUL-terminated in the arena. */
const char *milepost_config_path(const struct milepost_config *c, struct str path, struct arena *a);
/* Reads a key file (trimmed), or the environment variable when the path is empty. */
MUST_USE int milepost_config_key(struct str key_file, const char *env, struct arena *a,
                                 struct str *out, struct err *e);

#endif
