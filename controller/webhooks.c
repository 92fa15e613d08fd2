/* One struct per webhook: idle -> sending -> telling (the writer) -> idle.
 *
 * Threads: the sender owns everything; while a webhook is telling, the writer reads its notice and
 * answers through `told`. What a command could not write (full disk) is told again later; until
 * then nothing else goes to that webhook. */
#include "controller/webhooks.h"

#include "common/hash.h"
#include "common/http_multi.h"
#include "common/log.h"
#include "common/rng.h"
#include "controller/notices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_EVERY_MS = 500, TELL_AGAIN_MS = 1000, PAUSE_MAX_MS = 600000 };
enum { NOTICE_MEMORY = 4 * 1024 * 1024, SECRET_BYTES = 256 };

enum step { IDLE, SENDING, TELLING };
enum told { TOLD_WAITS, TOLD_DONE, TOLD_FAILED };

struct webhook {
    struct webhooks *owner;
    const struct webhook_config *config;
    const char *url;
    unsigned char key[SECRET_BYTES];
    size_t n_key; /* 0 = unsigned */
    enum step step;
    struct stored_notice notice; /* with the outcome, once telling */
    struct arena arena;          /* of the notice and its request */
    atomic_int told;
    struct mono tell_at;
};

struct webhooks {
    struct webhook *hook; /* [n] */
    uint32_t n;
    struct arena arena; /* secrets, addresses */
    struct store *store;
    struct http_multi *http;
    struct queue *commands;
    struct rng rng;
    atomic_bool is_stopping;
    bool is_running;
    pthread_t thread;
};

int64_t webhooks_pause_us(int64_t first_ms, uint32_t attempts, double random)
{
    int64_t ms = first_ms;
    for (uint32_t i = 1; i < attempts && ms < PAUSE_MAX_MS; i++)
        ms *= 2;
    ms = ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
    return (int64_t)((double)ms * 1000.0 * (1.0 - 0.5 * random));
}

/* "whsec_" and base64, or the text itself. */
static int read_secret(struct webhook *h, struct arena *a, struct err *e)
{
    struct str text;
    int rc = milepost_config_key(h->config->secret_file, "MILEPOST_WEBHOOK_SECRET", a, &text, e);
    if (rc != ERR_OK)
        return rc;
    if (str_starts(text, STR("whsec_"))) {
        return base64_decode(str_slice(text, 6, text.n), h->key, sizeof h->key, &h->n_key)
                   ? ERR_OK
                   : err_set(e, ERR_INVALID,
                             "the secret after whsec_ is not base64 of at most %d "
                             "bytes",
                             SECRET_BYTES);
    }
    if (text.n > sizeof h->key)
        return err_set(e, ERR_INVALID, "the secret is longer than %d bytes", SECRET_BYTES);
    memcpy(h->key, text.p, text.n);
    h->n_key = text.n;
    return ERR_OK;
}

static int open_hook(struct webhooks *w, uint32_t i, const struct webhook_config *c, struct err *e)
{
    struct webhook *h = &w->hook[i];
    *h = (struct webhook){.owner = w, .config = c, .url = arena_str(&w->arena, c->url).p};
    arena_init(&h->arena, NOTICE_MEMORY);
    if (!h->url)
        return err_set(e, ERR_NOMEM, "no memory for webhooks");
    if (read_secret(h, &w->arena, e) != ERR_OK)
        return err_wrap(e, "controller.webhooks[%u]", i);
    if (h->n_key == 0)
        log_event(LOG_WARN, "webhook.unsigned", "webhook=" STR_FMT, STR_ARG(c->name));
    return ERR_OK;
}

int webhooks_open(struct webhooks **out, const struct milepost_config *c, const char *database,
                  struct queue *commands, struct err *e)
{
    *out = NULL;
    struct webhooks *w = calloc(1, sizeof *w);
    if (w)
        w->hook = calloc(c->controller.webhooks.n + 1, sizeof *w->hook);
    if (!w || !w->hook) {
        free(w);
        return err_set(e, ERR_NOMEM, "no memory for webhooks");
    }
    w->commands = commands;
    arena_init(&w->arena, MiB);
    rng_seed(&w->rng, rng_entropy());
    int rc = http_multi_open(&w->http, e);
    if (rc == ERR_OK)
        rc = store_open_readonly(&w->store, database, e);
    for (; rc == ERR_OK && w->n < c->controller.webhooks.n; w->n++)
        rc = open_hook(w, w->n, (const struct webhook_config *)c->controller.webhooks.item + w->n,
                       e);
    if (rc != ERR_OK) {
        webhooks_close(w);
        return rc;
    }
    *out = w;
    return ERR_OK;
}

/* The writer. */

static int write_attempt(struct ledger *l, struct command *c, struct err *e)
{
    const struct webhook *h = c->ctx;
    return notices_attempt(l, &h->notice, e);
}

static void attempt_written(struct command *c)
{
    struct webhook *h = c->ctx;
    bool is_done = c->err.code == ERR_OK;
    struct webhooks *w = h->owner;
    command_free(c);
    atomic_store(&h->told, is_done ? TOLD_DONE : TOLD_FAILED);
    http_multi_wake(w->http);
}

static void tell(struct webhook *h)
{
    struct command *c = command_new(COMMAND_WRITE);
    h->step = TELLING;
    h->tell_at = clock_mono(&CLOCK_REAL);
    atomic_store(&h->told, TOLD_WAITS);
    if (c) {
        c->write = write_attempt;
        c->done = attempt_written;
        c->ctx = h;
    }
    if (c && queue_try_put(h->owner->commands, c))
        return;
    command_free(c);
    atomic_store(&h->told, TOLD_FAILED);
}

/* The sender. */

static bool is_worth_another(int rc, int status)
{
    return rc == ERR_IO || rc == ERR_TIMEOUT || status == 429 || status >= 500;
}

static void judge(struct webhook *h, int rc, int status)
{
    struct stored_notice *n = &h->notice;
    int64_t now = clock_wall(&CLOCK_REAL).us;
    int64_t give_up = n->created_us + h->config->give_up_minutes * 60 * 1000000;
    n->attempts++;
    n->next_us =
        now + webhooks_pause_us(h->config->retry_ms, n->attempts, rng_uniform(&h->owner->rng));
    if (rc == ERR_OK && status >= 200 && status < 300)
        n->state = NOTICE_SENT;
    else if (is_worth_another(rc, status) && n->next_us < give_up)
        n->state = NOTICE_WAITS;
    else
        n->state = NOTICE_GIVEN_UP;
}

static void on_answer(void *ctx, int rc, const struct http_result *r, const struct err *e)
{
    struct webhook *h = ctx;
    if (rc == ERR_CANCELLED) { /* the process ends: it stays as it was */
        h->step = IDLE;
        return;
    }
    int status = rc == ERR_OK ? r->status : 0;
    judge(h, rc, status);
    h->notice.answer = rc == ERR_OK ? arena_printf(&h->arena, "status %d", status)
                                    : arena_str(&h->arena, str_from(e->msg));
    if (h->notice.state != NOTICE_SENT) {
        log_event(LOG_WARN, h->notice.state == NOTICE_WAITS ? "webhook.retry" : "webhook.given_up",
                  "webhook=" STR_FMT " id=" STR_FMT " attempts=%u why=\"" STR_FMT "\"",
                  STR_ARG(h->config->name), STR_ARG(h->notice.key), h->notice.attempts,
                  STR_ARG(h->notice.answer));
    }
    tell(h);
}

static const char *signature(struct webhook *h, int64_t now_s)
{
    unsigned char mac[SHA256_BYTES];
    char text[48];
    struct str signed_text =
        arena_printf(&h->arena, STR_FMT ".%lld." STR_FMT, STR_ARG(h->notice.key), (long long)now_s,
                     STR_ARG(h->notice.body));
    if (!signed_text.p)
        return NULL;
    hmac_sha256((struct str){(const char *)h->key, h->n_key}, signed_text, mac);
    base64_encode(mac, sizeof mac, text);
    return arena_printf(&h->arena, "webhook-signature: v1,%s", text).p;
}

static bool ignore_body(void *ctx, struct str piece)
{
    (void)ctx;
    (void)piece;
    return true;
}

static int post(struct webhook *h, struct err *e)
{
    int64_t now_s = clock_wall(&CLOCK_REAL).us / 1000000;
    const char **headers = arena_array(&h->arena, 4, sizeof *headers);
    if (!headers)
        return err_set(e, ERR_NOMEM, "no memory for a webhook");
    headers[0] = arena_printf(&h->arena, "webhook-id: " STR_FMT, STR_ARG(h->notice.key)).p;
    headers[1] = arena_printf(&h->arena, "webhook-timestamp: %lld", (long long)now_s).p;
    headers[2] = h->n_key ? signature(h, now_s) : NULL;
    headers[3] = NULL;
    if (!headers[0] || !headers[1] || (h->n_key && !headers[2]))
        return err_set(e, ERR_NOMEM, "no memory for a webhook");
    struct http_call call = {.url = h->url,
                             .body = h->notice.body,
                             .headers = headers,
                             .timeout_ms = (uint32_t)h->config->timeout_ms,
                             .on_data = ignore_body};
    return http_multi_start(h->owner->http, &call, on_answer, h, e);
}

static void look(struct webhook *h)
{
    struct err e = {0};
    arena_reset(&h->arena);
    int rc = store_next_notice(h->owner->store, h->config->name, clock_wall(&CLOCK_REAL).us,
                               &h->arena, &h->notice, &e);
    if (rc == ERR_NOT_FOUND)
        return;
    h->step = SENDING;
    if (rc == ERR_OK)
        rc = post(h, &e);
    if (rc != ERR_OK) {
        h->step = IDLE;
        log_event(LOG_ERROR, "webhook.failed", "webhook=" STR_FMT " why=\"%s\"",
                  STR_ARG(h->config->name), e.msg);
    }
}

static void turn(struct webhook *h)
{
    if (h->step == TELLING) {
        int told = atomic_load(&h->told);
        uint64_t since_us = mono_since_us(h->tell_at, clock_mono(&CLOCK_REAL));
        if (told == TOLD_DONE)
            h->step = IDLE;
        else if (told == TOLD_FAILED && since_us >= TELL_AGAIN_MS * 1000)
            tell(h);
    }
    if (h->step == IDLE)
        look(h);
}

static void *run(void *ctx)
{
    struct webhooks *w = ctx;
    while (!atomic_load(&w->is_stopping)) {
        for (uint32_t i = 0; i < w->n; i++)
            turn(&w->hook[i]);
        http_multi_poll(w->http, NULL, 0, LOOK_EVERY_MS);
    }
    return NULL;
}

int webhooks_start(struct webhooks *w, struct err *e)
{
    if (w->n == 0)
        return ERR_OK;
    if (pthread_create(&w->thread, NULL, run, w) != 0)
        return err_set(e, ERR_NOMEM, "cannot start a thread for webhooks");
    w->is_running = true;
    return ERR_OK;
}

void webhooks_wake(struct webhooks *w)
{
    http_multi_wake(w->http);
}

void webhooks_stop(struct webhooks *w)
{
    if (!w || !w->is_running)
        return;
    atomic_store(&w->is_stopping, true);
    http_multi_wake(w->http);
    pthread_join(w->thread, NULL);
    w->is_running = false;
}

void webhooks_close(struct webhooks *w)
{
    if (!w)
        return;
    webhooks_stop(w);
    http_multi_close(w->http);
    store_close(w->store);
    for (uint32_t i = 0; i < w->n; i++)
        arena_free(&w->hook[i].arena);
    arena_free(&w->arena);
    free(w->hook);
    free(w);
}
