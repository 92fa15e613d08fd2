/* One loop: wait for control messages, new rows, a nudge or the next heartbeat; then serve each.
 * What other threads hand in (stats, applied version, results) waits under a lock. */
#include "engine/control/wire.h"

#include "common/log.h"
#include "engine/control/publisher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DEFAULT_WINDOW = 1024, HELLO_EVERY = 5, BUSY_POLL_MS = 5, MAX_RESULTS = 32 };

struct result {
    uint64_t id;
    bool is_ok;
    char message[200];
};

struct wire {
    struct wire_config config;
    pthread_t thread;
    struct bus_socket *outputs, *control;
    struct publisher publisher;
    struct arena arena; /* one message */
    struct buf in, out;
    uint64_t newest_desired;
    struct mono next_heartbeat;
    uint32_t n_heartbeats;
    bool said_hello;
    _Atomic bool stopping;
    struct mono stop_at;
    pthread_mutex_t lock; /* the rest */
    struct wire_stats stats;
    struct str weights;
    uint64_t applied;
    bool applied_is_news;
    struct result results[MAX_RESULTS];
    uint32_t n_results;
};

static const struct metric_desc SENT = {.name = "milepost_outputs_sent_total",
                                        .help = "Outputs put on the bus, repeats included.",
                                        .type = METRIC_COUNTER};
static const struct metric_desc RESENDS = {.name = "milepost_output_resends_total",
                                           .help =
                                               "Times all unacknowledged outputs were sent again.",
                                           .type = METRIC_COUNTER};

/* False: nobody is connected yet. */
static bool send_control(struct wire *w, const struct control *c)
{
    struct err e;
    buf_reset(&w->out);
    if (control_encode(c, &w->out, &e) != ERR_OK)
        log_event(LOG_ERROR, "wire.encode_failed", "err=\"%s\"", e.msg);
    else if (bus_send(w->control, (struct str){NULL, 0}, buf_str(&w->out), &e) != ERR_OK)
        log_event(LOG_DEBUG, "wire.control_unsent", "err=\"%s\"", e.msg);
    else
        return true;
    return false;
}

static uint64_t applied_version(struct wire *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t v = w->applied;
    pthread_mutex_unlock(&w->lock);
    return v;
}

static struct str serving_weights(struct wire *w)
{
    pthread_mutex_lock(&w->lock);
    struct str weights = w->weights;
    pthread_mutex_unlock(&w->lock);
    return weights;
}

/* The first one says what was in force when the process before this one ended: the next document
 * may have come before it could leave, and a crash is not that one's. */
static bool send_hello(struct wire *w)
{
    struct outbox_state st;
    outbox_get_state(w->config.outbox, &st);
    const struct wire_config *c = &w->config;
    struct control m = {
        .type = CONTROL_HELLO,
        .hello = {.engine = c->engine,
                  .epoch = st.epoch,
                  .next_seq = st.next_seq,
                  .oldest_seq = st.oldest_seq,
                  .crashes = st.crashes,
                  .model = c->model,
                  .weights = serving_weights(w),
                  .version = c->version,
                  .desired_version = w->said_hello ? applied_version(w) : w->config.applied}};
    bool is_sent = send_control(w, &m);
    w->said_hello = w->said_hello || is_sent;
    return is_sent;
}

static void send_heartbeat(struct wire *w)
{
    struct outbox_state st;
    outbox_get_state(w->config.outbox, &st);
    struct control m = {.type = CONTROL_HEARTBEAT,
                        .heartbeat = {.engine = w->config.engine,
                                      .epoch = st.epoch,
                                      .next_seq = st.next_seq,
                                      .oldest_seq = st.oldest_seq,
                                      .desired_version = applied_version(w),
                                      .outbox_rows = st.rows,
                                      .outbox_dropped = st.dropped}};
    pthread_mutex_lock(&w->lock);
    m.heartbeat.running = w->stats.running;
    m.heartbeat.waiting = w->stats.waiting;
    m.heartbeat.kv_usage = w->stats.kv_usage;
    m.heartbeat.tokens_per_second = w->stats.tokens_per_second;
    pthread_mutex_unlock(&w->lock);
    send_control(w, &m);
}

/* A controller that restarted knows nothing of us: hello comes again now and then, and with the
 * next heartbeat when it could not leave: by it a controller knows a crash from a past of its own.
 */
static void keep_in_touch(struct wire *w, struct mono now)
{
    if (now.us < w->next_heartbeat.us)
        return;
    if (w->config.on_heartbeat)
        w->config.on_heartbeat(w->config.ctx);
    w->next_heartbeat.us = now.us + (uint64_t)w->config.heartbeat_ms * 1000;
    bool is_due = w->n_heartbeats % HELLO_EVERY == 0;
    if (!is_due || send_hello(w))
        w->n_heartbeats++;
    send_heartbeat(w);
}

static void take_desired(struct wire *w, const struct desired *d)
{
    if (d->version <= w->newest_desired)
        return;
    w->newest_desired = d->version;
    w->config.on_desired(w->config.ctx, d, buf_str(&w->in));
}

static void take_commit(struct wire *w, const struct control_commit *c)
{
    struct outbox_state st;
    outbox_get_state(w->config.outbox, &st);
    outbox_commit(w->config.outbox, c->epoch, c->seq);
    if (c->epoch == st.epoch)
        publisher_hear_held(&w->publisher, c->held);
}

static void take_message(struct wire *w)
{
    struct control m;
    struct err e;
    arena_reset(&w->arena);
    if (control_decode(buf_str(&w->in), &w->arena, &m, &e) != ERR_OK) {
        log_event(LOG_WARN, "wire.bad_message", "err=\"%s\"", e.msg);
        return;
    }
    if (m.type == CONTROL_DESIRED)
        take_desired(w, &m.desired);
    else if (m.type == CONTROL_COMMIT && str_eq(m.commit.engine, w->config.engine))
        take_commit(w, &m.commit);
    else if (m.type == CONTROL_COMMAND)
        w->config.on_command(w->config.ctx, &m.command);
}

static void receive_all(struct wire *w)
{
    while (bus_receive(w->control, 0, NULL, &w->in, NULL) == ERR_OK)
        take_message(w);
}

static void send_news(struct wire *w)
{
    struct result results[MAX_RESULTS];
    pthread_mutex_lock(&w->lock);
    uint32_t n = w->n_results;
    for (uint32_t i = 0; i < n; i++)
        results[i] = w->results[i];
    w->n_results = 0;
    bool applied = w->applied_is_news;
    w->applied_is_news = false;
    pthread_mutex_unlock(&w->lock);
    if (applied) {
        struct control m = {.type = CONTROL_APPLIED,
                            .applied = {w->config.engine, applied_version(w)}};
        send_control(w, &m);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct control m = {
            .type = CONTROL_RESULT,
            .result = {results[i].id, results[i].is_ok, str_from(results[i].message)}};
        send_control(w, &m);
    }
}

/* After stop: until all is sent, or the time given for it is over. */
static bool may_end(struct wire *w, uint32_t n_sent, struct mono now)
{
    return atomic_load(&w->stopping) && (n_sent == 0 || now.us >= w->stop_at.us);
}

/* Until the next heartbeat or resend: messages, rows and nudges end the wait themselves. */
static int wait_ms(const struct wire *w, uint32_t n_sent, struct mono now)
{
    uint64_t next = publisher_next_us(&w->publisher, now);
    if (n_sent)
        return BUSY_POLL_MS;
    if (w->next_heartbeat.us < next)
        next = w->next_heartbeat.us;
    return next > now.us ? (int)((next - now.us + 999) / 1000) : 0;
}

uint32_t wire_turn(struct wire *w)
{
    struct mono now = clock_mono(w->config.clock);
    receive_all(w);
    send_news(w);
    keep_in_touch(w, now);
    return publisher_pump(&w->publisher, now);
}

static void *wire_main(void *arg)
{
    struct wire *w = arg;
    int rows_fd = outbox_new_rows_fd(w->config.outbox);
    int wait = 0;
    for (;;) {
        struct bus_socket *sockets[] = {w->control};
        if (bus_poll(sockets, 1, rows_fd, wait) & 2)
            (void)!read(rows_fd, &(uint64_t){0}, 8);
        struct mono now = clock_mono(w->config.clock);
        uint32_t n = wire_turn(w);
        if (may_end(w, n, now))
            return NULL;
        wait = wait_ms(w, n, now);
    }
}

static int open_sockets(struct wire *w, struct err *e)
{
    const struct wire_config *c = &w->config;
    struct bus_options outputs = {
        .kind = BUS_PUSH, .address = c->outputs_address, .bind = true, .security = c->security};
    char identity[256];
    struct buf name = {.p = identity, .cap = sizeof identity, .max_bytes = sizeof identity - 1};
    buf_put_str(&name, str_slice(c->engine, 0, sizeof identity - 2));
    buf_put_char(&name, '\0');
    struct bus_options control = {.kind = BUS_DEALER,
                                  .address = c->control_address,
                                  .identity = identity,
                                  .security = c->security};
    int rc;
    TRY(bus_socket_open(&w->outputs, c->bus, &outputs, e));
    TRY(bus_socket_open(&w->control, c->bus, &control, e));
out:
    return rc;
}

void wire_close(struct wire *w)
{
    if (!w)
        return;
    publisher_fini(&w->publisher);
    bus_socket_close(w->outputs);
    bus_socket_close(w->control);
    arena_free(&w->arena);
    buf_free(&w->in);
    buf_free(&w->out);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

int wire_open(struct wire **out, const struct wire_config *c, struct err *e)
{
    int rc;
    *out = NULL;
    struct wire *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, ERR_NOMEM, "wire");
    w->config = *c;
    w->weights = c->weights;
    w->applied = c->applied;
    pthread_mutex_init(&w->lock, NULL);
    arena_init(&w->arena, 16 * MiB);
    buf_init(&w->in, 16 * MiB);
    buf_init(&w->out, 1 * MiB);
    TRY(open_sockets(w, e));
    TRY(publisher_init(&w->publisher, c->outbox, w->outputs, c->resend_ms,
                       c->window ? c->window : DEFAULT_WINDOW, clock_mono(c->clock), e));
    if (c->metrics) {
        w->publisher.sent = metrics_add_one(c->metrics, &SENT);
        w->publisher.resends = metrics_add_one(c->metrics, &RESENDS);
    }
    *out = w;
    return ERR_OK;
out:
    wire_close(w);
    return rc;
}

int wire_start(struct wire **out, const struct wire_config *c, struct err *e)
{
    int rc = wire_open(out, c, e);
    if (rc != ERR_OK || pthread_create(&(*out)->thread, NULL, wire_main, *out) == 0)
        return rc;
    wire_close(*out);
    *out = NULL;
    return err_set(e, ERR_IO, "the bus thread could not be started: raise the thread limit");
}

static void nudge(struct wire *w)
{
    (void)!write(outbox_new_rows_fd(w->config.outbox), &(uint64_t){1}, 8);
}

void wire_stop(struct wire *w, uint32_t flush_ms)
{
    if (!w)
        return;
    w->stop_at.us = clock_mono(w->config.clock).us + (uint64_t)flush_ms * 1000;
    atomic_store(&w->stopping, true);
    nudge(w);
    pthread_join(w->thread, NULL);
    wire_close(w);
}

void wire_set_stats(struct wire *w, const struct wire_stats *s)
{
    pthread_mutex_lock(&w->lock);
    w->stats = *s;
    pthread_mutex_unlock(&w->lock);
}

void wire_set_weights(struct wire *w, struct str weights)
{
    pthread_mutex_lock(&w->lock);
    w->weights = weights;
    pthread_mutex_unlock(&w->lock);
}

void wire_set_applied(struct wire *w, uint64_t desired_version)
{
    pthread_mutex_lock(&w->lock);
    w->applied = desired_version;
    w->applied_is_news = true;
    pthread_mutex_unlock(&w->lock);
    nudge(w);
}

void wire_post_result(struct wire *w, uint64_t command_id, bool is_ok, struct str message)
{
    pthread_mutex_lock(&w->lock);
    if (w->n_results < MAX_RESULTS) {
        struct result *r = &w->results[w->n_results++];
        struct buf text = {
            .p = r->message, .cap = sizeof r->message, .max_bytes = sizeof r->message - 1};
        r->id = command_id;
        r->is_ok = is_ok;
        buf_put_str(&text, str_slice(message, 0, sizeof r->message - 1));
        r->message[text.n] = '\0';
    }
    pthread_mutex_unlock(&w->lock);
    nudge(w);
}

const char *wire_outputs_address(const struct wire *w)
{
    return bus_socket_address(w->outputs);
}
