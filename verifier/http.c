/* Health, metrics and the reward server. It answers as long as the pipeline's process lives:
 * readiness is that the service opens this last, when its sockets are bound. One loop thread. */
#include "verifier/http.h"

#include "verifier/score_server.h"

#include <pthread.h>
#include <stdlib.h>

enum { HEADER_MAX_BYTES = 8192, IDLE_MS = 30000, SCORE_IDLE_MS = 600000, CONNECTIONS = 4096 };
enum { FLUSH_MS = 500 };
#define BODY_MAX_BYTES (16 * MiB)

struct verifier_http {
    struct http_server *server;
    struct score_server *score;
    struct metrics *metrics;
    pthread_t thread;
};

static void on_health(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_reply(r, 200, "application/json", STR("{\"status\":\"ok\"}"));
}

static void on_metrics(struct http_request *r, void *ctx)
{
    struct verifier_http *h = ctx;
    struct buf text;

    buf_init(&text, 4 * MiB);
    metrics_render(h->metrics, &text);
    http_reply(r, text.failed ? 500 : 200, "text/plain; version=0.0.4", buf_str(&text));
    buf_free(&text);
}

static void *run(void *ctx)
{
    struct verifier_http *h = ctx;

    http_server_run(h->server);
    return NULL;
}

int verifier_http_open(struct verifier_http **out, const char *host, uint16_t port, struct str key,
                       struct metrics *metrics, const struct crew_config *crew, struct err *e)
{
    struct http_server_config c = {.host = host,
                                   .port = port,
                                   .max_body_bytes = BODY_MAX_BYTES,
                                   .max_header_bytes = HEADER_MAX_BYTES,
                                   .max_connections = CONNECTIONS,
                                   .idle_timeout_ms = SCORE_IDLE_MS,
                                   .request_ms = IDLE_MS};
    struct verifier_http *h = calloc(1, sizeof *h);
    int rc;

    *out = NULL;
    if (h == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the HTTP server");
    h->metrics = metrics;
    TRY(http_server_open(&h->server, &c, e));
    TRY(http_server_route(h->server, "GET", "/health", on_health, h, e));
    TRY(http_server_route(h->server, "GET", "/metrics", on_metrics, h, e));
    TRY(score_server_open(&h->score, h->server, key, crew, e));
    if (pthread_create(&h->thread, NULL, run, h) != 0)
        TRY(err_set(e, ERR_NOMEM, "no thread for the HTTP server"));
    *out = h;
    return ERR_OK;
out:
    score_server_free(h->score);
    if (h->server != NULL)
        http_server_close(h->server);
    free(h);
    return rc;
}

static void stop(void *ctx)
{
    http_server_stop(ctx, FLUSH_MS);
}

void verifier_http_close(struct verifier_http *h, uint32_t grace_ms)
{
    if (h == NULL)
        return;
    score_server_close(h->score, grace_ms);
    http_server_post(h->server, stop, h->server);
    pthread_join(h->thread, NULL);
    http_server_close(h->server);
    score_server_free(h->score);
    free(h);
}
