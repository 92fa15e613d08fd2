/* Wiring, in the order of need; closing runs backwards. After the loop ended nobody listens any
 * more, but what was generated is still recorded: generator, then outbox, then the API's jobs. */
#include "engine/engine.h"

#include "common/bus_keys.h"
#include "common/io.h"
#include "common/log.h"
#include "common/rng.h"
#include "common/stop.h"
#include "engine/desired.h"
#include "engine/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 32 * 1024,
    SLOW_READER_BYTES = 1024 * 1024,
    GRACE_MS = 7000, /* with the last answers less than the ten seconds of `milepost up` */
    LAST_ANSWERS_MS = 1500,
    FLUSH_MS = 300,
    IDLE_MARGIN_MS = 5000
};

struct engine {
    const struct milepost_config *config;
    const char *version;
    struct comm *ranks;
    struct arena arena; /* process */
    struct metrics *metrics;
    struct load load;
    struct str id, api_key, weights; /* in the arena: records outlive the model they name */
    struct bus *bus;
    struct bus_keys keys;
    struct outbox *outbox;
    const struct generator_ops *ops;
    struct generator *generator;
    struct http_server *server;
    struct api *api;
    struct wire *wire;
    struct desired_inbox inbox;
    struct reload *reload;
};

static const struct metric_desc GPU_MEMORY = {.name = "milepost_gpu_memory_used_bytes",
                                              .help =
                                                  "Weights and key-value cache on a device with "
                                                  "memory of its own; 0 on processors.",
                                              .type = METRIC_GAUGE};

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "out of memory at start");
}

static int open_server(struct engine *g, struct err *e)
{
    const struct engine_config *c = &g->config->engine;
    int64_t busy = c->request_timeout_ms + IDLE_MARGIN_MS; /* a long answer is no idleness */
    const struct http_server_config hc = {
        .host = arena_str(&g->arena, c->host).p,
        .port = (uint16_t)c->port,
        .max_body_bytes = (size_t)c->max_body_bytes,
        .max_header_bytes = HEADER_BYTES,
        .max_connections = (uint32_t)c->max_connections,
        .idle_timeout_ms = (uint32_t)(c->idle_timeout_ms > busy ? c->idle_timeout_ms : busy),
        .request_ms = (uint32_t)c->idle_timeout_ms,
        .slow_reader_bytes = SLOW_READER_BYTES,
        .error_body = api_error_body,
    };
    return hc.host ? http_server_open(&g->server, &hc, e) : no_memory(e);
}

/* "host:port" when the configuration names no engine. */
static int name_engine(struct engine *g, struct err *e)
{
    char host[128] = "engine";
    g->id = g->config->engine.id;
    if (g->id.n)
        return ERR_OK;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    g->id = arena_printf(&g->arena, "%s:%u", host, (unsigned)http_server_port(g->server));
    return g->id.p ? ERR_OK : no_memory(e);
}

static int name_weights(struct engine *g, struct err *e)
{
    g->weights = arena_str(&g->arena, model_get_info(g->load.model)->weights_hash);
    return g->weights.p ? ERR_OK : no_memory(e);
}

static int open_outbox(struct engine *g, struct err *e)
{
    const struct loop_config *c = &g->config->loop;
    const char *folder = arena_str(&g->arena, g->config->state_dir).p;
    const char *path = milepost_config_path(g->config, c->outbox, &g->arena);
    if (!folder || !path)
        return no_memory(e);
    const struct outbox_config oc = {.path = path,
                                     .sync_full = c->outbox_sync == 1,
                                     .max_bytes = (uint64_t)c->outbox_max_mib * MiB,
                                     .engine = g->id,
                                     .epoch_seed = rng_entropy(),
                                     .metrics = g->metrics};
    int rc = g->config->state_dir.n ? io_make_dir(folder, e) : ERR_OK;
    return rc == ERR_OK ? outbox_open(&g->outbox, &oc, e) : rc;
}

static int open_generator(struct engine *g, struct err *e)
{
    const struct engine_config *c = &g->config->engine;
    const struct gen_config gc = {
        .clock = &CLOCK_REAL,
        .model = g->load.model,
        .end_ids = g->load.end_ids,
        .n_end = g->load.n_end,
        .n_kv_blocks = g->load.n_kv_blocks,
        .max_batch_tokens = (uint32_t)c->max_batch_tokens,
        .max_running =
            (uint32_t)(c->max_running < c->max_batch_tokens ? c->max_running : c->max_batch_tokens),
        .max_queue = (uint32_t)c->max_queue,
        .prefill_chunk = (uint32_t)c->prefill_chunk,
        .draft_tokens = (uint32_t)c->draft_tokens,
        .max_gap_us = (uint64_t)c->max_gap_ms * 1000,
        .is_static = c->batching == 1,
        .max_context = g->load.max_context,
        .prefix_cache = c->prefix_cache,
        .metrics = g->metrics,
    };
    g->ops = &GENERATOR_LOCAL;
    return g->ops->open(&g->generator, &gc, e);
}

static int open_api(struct engine *g, struct err *e)
{
    const struct api_config ac = {
        .clock = &CLOCK_REAL,
        .server = g->server,
        .ops = g->ops,
        .generator = g->generator,
        .tokenizer = g->load.tokenizer,
        .file = g->load.file,
        .chat_template = g->load.chat_template,
        .outbox = g->outbox,
        .metrics = g->metrics,
        .model = g->load.name,
        .weights = g->weights,
        .api_key = g->api_key,
        .max_context = g->load.max_context,
        .request_timeout_us = (uint64_t)g->config->engine.request_timeout_ms * 1000,
    };
    return api_open(&g->api, &ac, e);
}

static int open_inbox(struct engine *g, struct err *e)
{
    struct route_table *table;
    int rc = desired_table_first(g->outbox, g->config, &table, e);
    if (rc != ERR_OK)
        return rc;
    g->inbox.server = g->server;
    g->inbox.api = g->api;
    g->inbox.outbox = g->outbox;
    g->inbox.ops = g->ops;
    g->inbox.generator = g->generator;
    g->inbox.load = &g->load;
    g->inbox.arena = &g->arena;
    g->inbox.max_running = (uint32_t)g->config->engine.max_running;
    g->inbox.prefill_chunk = (uint32_t)g->config->engine.prefill_chunk;
    desired_apply(&g->inbox, table);
    return ERR_OK;
}

static int open_reload(struct engine *g, struct err *e)
{
    const struct reload_config rc = {.server = g->server,
                                     .load = &g->load,
                                     .engine = &g->config->engine,
                                     .on_end = desired_on_weights,
                                     .ctx = &g->inbox};
    int code = reload_open(&g->reload, &rc, e);
    g->inbox.reload = g->reload;
    return code;
}

static void set_stats(void *ctx)
{
    const struct desired_inbox *inbox = ctx;
    struct gen_stats s;
    inbox->ops->stats(inbox->generator, &s);
    const struct wire_stats w = {
        .running = s.running,
        .waiting = s.waiting,
        .kv_usage = s.kv_tokens ? (double)s.kv_tokens_used / (double)s.kv_tokens : 0,
        .tokens_per_second = s.tokens_per_second,
    };
    wire_set_stats(inbox->wire, &w);
}

/* Wire thread: the next heartbeat tells what the loop knows now. */
static void on_heartbeat(void *ctx)
{
    struct desired_inbox *inbox = ctx;
    (void)http_server_post(inbox->server, set_stats, inbox);
}

static int open_wire(struct engine *g, struct err *e)
{
    const struct loop_config *c = &g->config->loop;
    struct bus_security security = {0};
    int rc;
    TRY(bus_keys_load(c->curve_dir, true, &g->keys, &security, e));
    TRY(bus_open(&g->bus, e));
    const struct wire_config wc = {
        .bus = g->bus,
        .clock = &CLOCK_REAL,
        .outbox = g->outbox,
        .outputs_address = arena_str(&g->arena, c->outputs).p,
        .control_address = arena_str(&g->arena, c->control).p,
        .security = security,
        .engine = g->id,
        .model = g->load.name,
        .weights = g->weights,
        .version = str_from(g->version),
        .resend_ms = (uint32_t)c->resend_ms,
        .heartbeat_ms = (uint32_t)c->heartbeat_ms,
        .metrics = g->metrics,
        .applied = route_table_version(api_get_table(g->api)),
        .on_desired = desired_on_document,
        .on_command = desired_on_command,
        .on_heartbeat = on_heartbeat,
        .ctx = &g->inbox,
    };
    if (!wc.outputs_address || !wc.control_address)
        TRY(no_memory(e));
    TRY(wire_start(&g->wire, &wc, e));
    TRY(open_reload(g, e));
    g->inbox.wire = g->wire;
    wire_set_applied(g->wire, route_table_version(api_get_table(g->api)));
out:
    return rc;
}

static void on_tokens(int fd, void *ctx)
{
    (void)fd;
    struct engine *g = ctx;
    g->ops->drain(g->generator);
}

static void on_records(int fd, void *ctx)
{
    (void)fd;
    struct engine *g = ctx;
    outbox_drain(g->outbox);
}

static int watch(struct engine *g, struct err *e)
{
    int rc;
    TRY(http_server_watch(g->server, g->ops->fd(g->generator), on_tokens, g, e));
    if (g->outbox)
        TRY(http_server_watch(g->server, outbox_fd(g->outbox), on_records, g, e));
out:
    return rc;
}

static void warn_if_open(const struct engine *g)
{
    struct str host = g->config->engine.host;
    bool is_loopback =
        str_starts(host, STR("127.")) || str_eq_c(host, "localhost") || str_eq_c(host, "::1");
    if (!is_loopback && g->api_key.n == 0)
        log_event(LOG_WARN, "engine.open_to_network",
                  "host=" STR_FMT " hint=\"anyone who reaches this address can use the model: set "
                  "engine.api_key_file or MILEPOST_API_KEY\"",
                  STR_ARG(host));
}

static int open_parts(struct engine *g, struct err *e)
{
    const struct engine_config *c = &g->config->engine;
    bool is_looped = g->config->loop.enabled;
    int rc;
    TRY(milepost_config_key(c->api_key_file, "MILEPOST_API_KEY", &g->arena, &g->api_key, e));
    TRY(open_server(g, e));
    TRY(name_engine(g, e));
    if (is_looped)
        TRY(open_outbox(g, e));
    TRY(load_open(&g->load, c, g->ranks, &g->arena, e));
    TRY(name_weights(g, e));
    TRY(open_generator(g, e));
    TRY(open_api(g, e));
    TRY(open_inbox(g, e));
    if (is_looped)
        TRY(open_wire(g, e));
    TRY(watch(g, e));
    warn_if_open(g);
out:
    return rc;
}

int engine_open(struct engine **out, const struct milepost_config *c, struct comm *ranks,
                const char *version, struct err *e)
{
    struct engine *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return no_memory(e);
    g->config = c;
    g->ranks = ranks;
    g->version = version;
    arena_init(&g->arena, 4 * MiB);
    desired_init(&g->inbox);
    g->metrics = metrics_new();
    struct metric *memory = metrics_add_one(g->metrics, &GPU_MEMORY);
    int rc = open_parts(g, e);
    metric_set(memory, rc == ERR_OK ? (double)load_device_bytes(&g->load, &c->engine) : 0);
    if (rc != ERR_OK)
        engine_close(g);
    else
        *out = g;
    return rc;
}

static void on_grace_over(void *ctx)
{
    struct engine *g = ctx;
    api_end_jobs(g->api);
}

static void on_stop(int fd, void *ctx)
{
    struct engine *g = ctx;
    int number = stop_read(fd);
    int64_t grace = g->config->engine.request_timeout_ms;
    if (number == 0)
        return;
    log_event(LOG_INFO, "engine.stop", "signal=%d open=%u", number, api_open_jobs(g->api));
    api_set_admitting(g->api, false);
    if (grace > GRACE_MS)
        grace = GRACE_MS;
    if (http_server_every(g->server, (uint32_t)grace, on_grace_over, g, NULL) != ERR_OK)
        on_grace_over(g);
    http_server_stop(g->server, (uint32_t)grace + LAST_ANSWERS_MS);
}

int engine_run(struct engine *g, int stop_fd, struct err *e)
{
    int rc = http_server_watch(g->server, stop_fd, on_stop, g, e);
    if (rc != ERR_OK)
        return rc;
    const struct model_info *m = model_get_info(g->load.model);
    log_event(LOG_INFO, "engine.ready",
              "id=" STR_FMT " url=http://" STR_FMT ":%u model=" STR_FMT " arch=" STR_FMT
              " weights_mib=%zu context=%u kv_tokens=%u loop=%s",
              STR_ARG(g->id), STR_ARG(g->config->engine.host), http_server_port(g->server),
              STR_ARG(g->load.name), STR_ARG(m->arch), m->weight_bytes / MiB, g->load.max_context,
              g->load.n_kv_blocks * KV_BLOCK_TOKENS, g->wire ? "on" : "off");
    http_server_run(g->server);
    if (api_is_device_lost(g->api))
        return err_set(e, ERR_DEVICE, "the device failed: start the engine again");
    return ERR_OK;
}

void engine_close(struct engine *g)
{
    if (!g)
        return;
    if (g->api)
        api_detach(g->api);
    reload_close(g->reload);
    if (g->generator)
        g->ops->close(g->generator);
    if (g->outbox)
        outbox_drain(g->outbox);
    wire_stop(g->wire, FLUSH_MS);
    outbox_close(g->outbox);
    api_close(g->api);
    desired_fini(&g->inbox);
    http_server_close(g->server);
    load_close(&g->load);
    if (g->bus)
        bus_close(g->bus);
    metrics_free(g->metrics);
    arena_free(&g->arena);
    free(g);
}
