/* Every key of the configuration but those of routes: default, range, unit, sentence.
 *
 * A row here is all there is to add for a new key: loading, --set, printing, the reference and the
 * schema follow from it. Defaults suit two cores and the default model. */
#include "schemas/config_tables.h"

static const char *const DEVICES[] = {"auto", "cuda", "simt", "cpu", "ref", NULL};
static const char *const BATCHING[] = {"continuous", "static", NULL};
static const char *const KV_DTYPES[] = {"f16", "int8", "bf16", "fp8", NULL};
static const char *const WEIGHTS[] = {"file", "fp8", NULL};
static const char *const GEMMS[] = {"own", "cublaslt", NULL};
static const char *const SYNC_MODES[] = {"normal", "full", NULL};

#define E struct engine_config
static const struct cfg_option ENGINE_OPTIONS[] = {
    TEXT_ROW(E, id, "", "Name of this engine in records; empty = host name and port."),
    TEXT_ROW(E, model, "", "Path of the GGUF file to serve."),
    TEXT_ROW(E, served_name, "", "Name of the model in the API; empty = from the file."),
    TEXT_ROW(E, host, "127.0.0.1",
             "Address the API listens on. Set a key before opening it to a network."),
    INT_ROW(E, port, "8000", 0, 65535, "", "Port of the API; 0 = any free one."),
    {.key = "device",
     .was = "backend",
     .type = CFG_ENUM,
     .offset = offsetof(E, device),
     .fallback = "auto",
     .choices = DEVICES,
     .unit = "",
     .help = "What computes: auto is cuda where the build and the machine have it, else cpu, which "
             "is vectorised; simt runs the CUDA kernels on an emulator, ref is the slow truth for "
             "comparisons."},
    INT_ROW(E, threads, "0", 0, 1024, "threads", "Compute threads; 0 = the usable cores."),
    INT_ROW(E, tp_size, "1", 1, 16, "processes",
            "Processes that compute the model together (tensor parallelism), each with its share "
            "of weights, key-value cache and threads. On cuda and simt at most one per KV head."),
    TEXT_ROW(E, chat_template, "", "Name of the chat template; empty = recognised from the file."),
    INT_ROW(E, max_context, "2048", 16, 1 << 20, "tokens",
            "Longest prompt plus answer; never more than the model was trained for."),
    INT_ROW(E, max_running, "16", 1, 4096, "requests",
            "Requests generated for at the same time. More = higher throughput, slower streams."),
    INT_ROW(E, max_queue, "128", 1, 65536, "requests",
            "Waiting requests; one more is answered with 503 and Retry-After."),
    INT_ROW(E, max_batch_tokens, "512", 16, 65536, "tokens", "Tokens computed in one step."),
    INT_ROW(
        E, prefill_chunk, "256", 16, 65536, "tokens",
        "Most prompt tokens computed in one step; while streams run max_gap_ms bounds them too."),
    INT_ROW(
        E, max_gap_ms, "40", 0, 60000, "ms",
        "Longest step wanted while streams run: prompts get what fits. 0 = prefill_chunk always."),
    INT_ROW(E, draft_tokens, "7", 0, 63, "tokens",
            "Most tokens of a step that are guessed ahead of few streams, from what their own text "
            "repeats; answers stay the same. 0 = none; none on cuda and simt."),
    ENUM_ROW(E, batching, "continuous", BATCHING,
             "static = all slots start and end together, for comparisons only."),
    INT_ROW(E, kv_tokens, "0", 0, 1 << 28, "tokens",
            "Size of the key-value cache; 0 = from mem_fraction or kv_memory_mib."),
    REAL_ROW(E, mem_fraction, "0", 0, 0.95, "",
             "Share of the device's memory for weights and key-value cache together (cpu and "
             "ref: of this machine's, or its container's); 0 = from kv_memory_mib."),
    ENUM_ROW(E, kv_dtype, "f16", KV_DTYPES,
             "Numbers of the key-value cache; int8 holds 1.9 times the tokens, a little less "
             "exactly. bf16 and fp8 (twice the tokens, coarser than int8): devices cuda and simt."),
    ENUM_ROW(E, weights, "file", WEIGHTS,
             "Numbers of the weights: as in the file, or its bf16 matrices as fp8 with a scale a "
             "row, half the bytes: devices cuda, simt and ref."),
    ENUM_ROW(E, gemm, "own", GEMMS,
             "Who multiplies prompts of 128 tokens and more: own kernels, or cuBLASLt, which "
             "rounds to bfloat16 and gives bits that depend on how a prompt was cut: "
             "devices cuda and simt."),
    INT_ROW(E, kv_memory_mib, "512", 1, 1 << 24, "MiB",
            "Most memory for the key-value cache, where neither kv_tokens nor mem_fraction says."),
    INT_ROW(E, max_body_bytes, "4194304", 1024, 1 << 30, "bytes", "Largest request body."),
    INT_ROW(E, request_timeout_ms, "120000", 100, 86400000, "ms",
            "A request that takes longer is ended with what it has."),
    INT_ROW(E, idle_timeout_ms, "60000", 1000, 86400000, "ms",
            "A connection without traffic is closed after this."),
    INT_ROW(E, max_connections, "512", 1, 65536, "connections", "Open connections at once."),
    BOOL_ROW(E, prefix_cache, "true", "Keep computed prompts and reuse shared beginnings."),
    TEXT_ROW(E, api_key_file, "",
             "File with the API key; empty = MILEPOST_API_KEY, or no key when that is unset."),
    TEXT_ROW(E, admin_key_file, "",
             "File with the admin key; empty = MILEPOST_ADMIN_KEY, or none."),
};
#undef E
const struct cfg_table ENGINE_TABLE = {.name = "engine",
                                       .size = sizeof(struct engine_config),
                                       .option = ENGINE_OPTIONS,
                                       .n_option = CFG_COUNT(ENGINE_OPTIONS)};

#define L struct loop_config
static const struct cfg_option LOOP_OPTIONS[] = {
    BOOL_ROW(L, enabled, "true", "false = the engine serves alone and records nothing."),
    TEXT_ROW(L, outputs, "tcp://127.0.0.1:5551", "Outputs, engine to verifiers; the engine binds."),
    TEXT_ROW(L, scores, "tcp://127.0.0.1:5552",
             "Scores, verifiers to controller; the controller binds."),
    TEXT_ROW(L, control, "tcp://127.0.0.1:5553",
             "Desired state and commit marks; the controller binds."),
    TEXT_ROW(L, curve_dir, "",
             "Folder with CURVE keys; needed when an address above is not loopback."),
    TEXT_ROW(L, outbox, "engine.outbox.sqlite", "Outputs that are not yet committed."),
    ENUM_ROW(L, outbox_sync, "normal", SYNC_MODES,
             "normal survives kill -9; full also survives power loss and costs an fsync a step."),
    INT_ROW(L, outbox_max_mib, "256", 1, 1 << 20, "MiB",
            "Largest outbox; past it the oldest unsent outputs are dropped and counted."),
    INT_ROW(L, resend_ms, "3000", 50, 3600000, "ms",
            "Outputs without a commit mark are sent again after this."),
    INT_ROW(L, heartbeat_ms, "1000", 50, 60000, "ms", "Time between an engine's heartbeats."),
};
#undef L
const struct cfg_table LOOP_TABLE = {.name = "loop",
                                     .size = sizeof(struct loop_config),
                                     .option = LOOP_OPTIONS,
                                     .n_option = CFG_COUNT(LOOP_OPTIONS)};

#define V struct verifier_config
static const struct cfg_option VERIFIER_OPTIONS[] = {
    TEXT_ROW(V, id, "", "Name of this verifier in scores; empty = host name and port."),
    TEXT_ROW(V, host, "127.0.0.1", "Address of its metrics and health."),
    INT_ROW(V, port, "8091", 0, 65535, "", "Port of its metrics and health; 0 = any free one."),
    INT_ROW(V, threads, "2", 1, 256, "threads", "Outputs scored at the same time."),
    INT_ROW(V, max_queue, "1024", 1, 1 << 20, "outputs",
            "Outputs held; past it the queue waits at the engine."),
    TEXT_ROW(V, api_key_file, "",
             "File with the key that POST /score needs; empty = MILEPOST_API_KEY, or no key when "
             "that is unset."),
};
#undef V
const struct cfg_table VERIFIER_TABLE = {.name = "verifier",
                                         .size = sizeof(struct verifier_config),
                                         .option = VERIFIER_OPTIONS,
                                         .n_option = CFG_COUNT(VERIFIER_OPTIONS)};

#define C struct controller_config
static const struct cfg_option CONTROLLER_OPTIONS[] = {
    TEXT_ROW(C, host, "127.0.0.1", "Address of the dashboard and its API."),
    INT_ROW(C, port, "8090", 0, 65535, "", "Port of the dashboard and its API."),
    TEXT_ROW(C, database, "milepost.sqlite", "The one database: outputs, scores, decisions."),
    TEXT_ROW(C, admin_key_file, "",
             "File with the key that changes need; empty = MILEPOST_ADMIN_KEY, or none."),
    INT_ROW(C, batch_rows, "1024", 1, 65536, "rows",
            "Most scores in one transaction; fewer when fewer wait."),
    INT_ROW(C, batch_ms, "50", 1, 10000, "ms",
            "A transaction is committed after this at the latest."),
    INT_ROW(C, keep_texts_days, "0", 0, 36500, "days",
            "Outputs' texts (messages, tokens) are dropped after this; scores, columns and hashes "
            "stay, so that replay still proves all. 0 = kept."),
    INT_ROW(C, keep_sums_days, "0", 0, 36500, "days",
            "Sums by hour, route, revision and arm are dropped after this. 0 = kept."),
    {.key = "webhooks",
     .type = CFG_LIST,
     .offset = offsetof(C, webhooks),
     .sub = &WEBHOOK_TABLE,
     .help = "Who is told of decisions and of datasets for training (controller/API.md)."},
    TEXT_ROW(C, datasets, "datasets",
             "Folder of the datasets that 'milepost finetune' exports; files stay until you remove "
             "them."),
    BOOL_ROW(C, finetune_when_low, "false",
             "Export a dataset, at most once a day and route, when a policy proposes a change "
             "because the reward is low."),
    INT_ROW(C, finetune_days, "7", 1, 36500, "days", "... of the outputs of so many days."),
    INT_ROW(C, engine_stale_ms, "10000", 500, 3600000, "ms",
            "An engine without a heartbeat for this long counts as away."),
};
#undef C
const struct cfg_table CONTROLLER_TABLE = {.name = "controller",
                                           .size = sizeof(struct controller_config),
                                           .option = CONTROLLER_OPTIONS,
                                           .n_option = CFG_COUNT(CONTROLLER_OPTIONS)};
