/* The writer's turn: collect a batch, commit it, tell the outside.
 *
 * Invariant: nothing is sent or answered that rests on an uncommitted row. When a batch fails (full
 * disk), it is forgotten as a whole; engines send its rows again, commands are answered with the
 * error. */
#include "controller/loop.h"

#include "common/log.h"
#include "common/queue.h"
#include "controller/exporter.h"
#include "controller/gauges.h"
#include "controller/notices.h"
#include "controller/receiver.h"
#include "controller/store/applied.h"
#include "controller/webhooks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_COMMANDS = 64,
    SHOW_EVERY_MS = 250,
    BACK_OFF_MS = 500,
    EXPIRE_EVERY_MS = 60000,
    EXPIRE_PAUSE_MS = 20,
    FRAME_BYTES = 16 * 1024 * 1024
};

struct loop {
    struct loop_options o;
    struct ledger *ledger;
    struct gauges *gauges;
    struct receiver *receiver;
    struct webhooks *webhooks; /* threads beside this one, which write through `commands` */
    struct exporter *exporter;
    int wake_fd; /* epoll over the commands and the receiver, once that runs beside us; or -1 */
    struct control_server control;
    struct queue *commands;
    struct command *running[MAX_COMMANDS]; /* of this batch, to be answered after it */
    uint32_t n_running;
    uint32_t n_rows; /* of this batch */
    struct mono shown, expired;
    bool has_more_to_expire;
    atomic_bool is_stopping;
};

static void on_decision(void *ctx, const struct decision *d)
{
    struct loop *l = ctx;
    gauges_decision(l->gauges, d);
    log_event(LOG_INFO, "decision",
              "number=%llu route=" STR_FMT " action=" STR_FMT " actor=" STR_FMT
              " from=%llu to=%llu log_e=%.4g",
              (unsigned long long)d->number, STR_ARG(d->route), STR_ARG(d->action),
              STR_ARG(d->actor), (unsigned long long)d->from_revision,
              (unsigned long long)d->to_revision, d->log_e);
}

static void on_gap(void *ctx, struct str engine, uint64_t n)
{
    struct loop *l = ctx;
    gauges_gap(l->gauges, engine, n);
    log_event(LOG_WARN, "sequence.gap", "engine=" STR_FMT " outputs=%llu", STR_ARG(engine),
              (unsigned long long)n);
}

static void on_applied(void *ctx, const struct engine_peer *p, uint64_t after_us)
{
    struct loop *l = ctx;
    gauges_applied(l->gauges, p->engine, (double)after_us * 1e-6);
    log_event(LOG_INFO, "engine.applied", "engine=%s version=%llu after_us=%llu", p->engine,
              (unsigned long long)p->beat.desired_version, (unsigned long long)after_us);
}

static void on_notice(void *ctx, const struct stored_notice *n)
{
    struct loop *l = ctx;
    gauges_notice(l->gauges, n);
}

/* An order to an engine is over: kept with the batch, whose failure loses no more than this line.
 */
static void on_order(void *ctx, const struct command *c)
{
    struct loop *l = ctx;
    struct err e = {0};
    bool is_ok = c->err.code == ERR_OK;
    struct stored_order o = {.engine = c->engine,
                             .command = c->order,
                             .argument = c->argument,
                             .actor = c->author,
                             .answer = str_from(is_ok ? c->message : c->err.msg),
                             .is_ok = is_ok};
    int rc = ledger_begin(l->ledger, &e);
    o.at_us = l->ledger->now_us;
    if (rc == ERR_OK)
        rc = store_put_order(l->ledger->store, &o, &e);
    if (rc != ERR_OK)
        log_event(LOG_ERROR, "engine.order_lost", "why=\"%s\"", e.msg);
}

static int open_socket(struct loop *l, enum bus_kind kind, const char *address,
                       struct bus_socket **out, struct err *e)
{
    struct bus_options o = {.kind = kind,
                            .address = address,
                            .bind = true,
                            .max_message_bytes = FRAME_BYTES,
                            .security = l->o.security};
    return bus_socket_open(out, l->o.bus, &o, e);
}

int loop_open(struct loop **out, const struct loop_options *o, struct err *e)
{
    *out = NULL;
    struct bus_socket *scores = NULL, *control = NULL;
    int rc = ERR_OK;
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for the loop");
    l->o = *o;
    l->wake_fd = -1;
    control_server_init(&l->control, NULL, o->clock);
    l->control.on_applied = on_applied;
    l->control.on_applied_ctx = l;
    l->control.orders.ended = on_order;
    l->control.orders.ended_ctx = l;
    l->gauges = gauges_new(o->metrics);
    struct ledger_options lo = {.database = o->database,
                                .config = o->config,
                                .clock = o->clock,
                                .seed = o->seed,
                                .stop = o->stop,
                                .hooks = {on_decision, on_gap, on_notice, l}};
    TRY(queue_open(&l->commands, MAX_COMMANDS, true, e));
    TRY(ledger_open(&l->ledger, &lo, e));
    if (!l->gauges)
        TRY(err_set(e, ERR_NOMEM, "no memory for the loop"));
    TRY(webhooks_open(&l->webhooks, o->config, o->database, l->commands, e));
    TRY(exporter_open(&l->exporter, o->config, o->database, l->commands, e));
    TRY(open_socket(l, BUS_PULL, o->scores, &scores, e));
    TRY(receiver_open(&l->receiver, scores, e));
    TRY(open_socket(l, BUS_ROUTER, o->control, &control, e));
    l->control.socket = control;
out:
    if (rc != ERR_OK) {
        loop_close(l);
        return rc;
    }
    *out = l;
    return ERR_OK;
}

void loop_close(struct loop *l)
{
    if (!l)
        return;
    struct command *c;
    l->control.orders.ended = NULL;
    webhooks_stop(l->webhooks);
    exporter_stop(l->exporter);
    while (l->commands && (c = queue_try_take(l->commands))) {
        err_set(&c->err, ERR_CANCELLED, "the controller is stopping");
        c->done(c);
    }
    webhooks_close(l->webhooks);
    exporter_close(l->exporter);
    receiver_close(l->receiver);
    ledger_close(l->ledger);
    gauges_free(l->gauges);
    control_server_fini(&l->control);
    queue_free(l->commands);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    free(l);
}

bool loop_submit(struct loop *l, struct command *c)
{
    return queue_try_put(l->commands, c);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->is_stopping, true);
    queue_close(l->commands);
}

static int take_item(struct loop *l, const struct intake_item *x, struct err *e)
{
    struct intake_result r;
    int rc = ledger_begin(l->ledger, e);
    if (rc == ERR_OK)
        rc = intake_apply(l->ledger, x, &r, e);
    if (rc != ERR_OK)
        return rc;
    l->n_rows++;
    gauges_frame(l->gauges, &r, l->ledger->now_us);
    if (r.kind == INTAKE_REJECT || r.kind == INTAKE_GARBAGE)
        log_event(LOG_WARN, "intake.refused", "why=\"%s\"", r.why.msg);
    return ERR_OK;
}

/* Until scores, control or a command come. */
static uint32_t wait_for_work(struct loop *l, int timeout_ms)
{
    struct bus_socket *sockets[] = {l->control.socket, receiver_socket(l->receiver)};
    bool is_beside = l->wake_fd >= 0; /* the scores' socket is the receiver's own then */
    return bus_poll(sockets, is_beside ? 1 : 2, is_beside ? l->wake_fd : queue_fd(l->commands),
                    timeout_ms);
}

/* The next frame of a batch that has begun. None when engines or operators wait: they are answered
 * after a commit, so the batch ends early for them. */
static struct intake_item *wait_for_item(struct loop *l, int64_t left_ms)
{
    struct intake_item *x = receiver_take(l->receiver, 0);
    if (x || l->n_rows == 0 || left_ms <= 0)
        return x;
    bool is_control = wait_for_work(l, (int)left_ms) & 1;
    return is_control || queue_count(l->commands) ? NULL : receiver_take(l->receiver, 0);
}

/* Frames until the batch is full or its time is over. The first wait was the poll. */
static int collect_frames(struct loop *l, struct err *e)
{
    const struct controller_config *c = &l->o.config->controller;
    struct mono begin = clock_mono(&l->o.clock);
    int rc = ERR_OK;
    while (rc == ERR_OK && l->n_rows < c->batch_rows) {
        int64_t left =
            c->batch_ms - (int64_t)(mono_since_us(begin, clock_mono(&l->o.clock)) / 1000);
        struct intake_item *x = wait_for_item(l, left);
        if (!x)
            break;
        rc = take_item(l, x, e);
        receiver_give_back(l->receiver, x);
    }
    return rc;
}

static int collect_commands(struct loop *l, struct err *e)
{
    int rc = ERR_OK;
    while (rc == ERR_OK && l->n_running < MAX_COMMANDS) {
        struct command *c = queue_try_take(l->commands);
        if (!c)
            break;
        if (c->kind == COMMAND_ENGINE) {
            control_server_order(&l->control, c, l->o.config->controller.engine_stale_ms);
            continue;
        }
        l->running[l->n_running++] = c;
        rc = ledger_begin(l->ledger, e);
        if (rc == ERR_OK)
            rc = command_run(l->ledger, c, e);
    }
    return rc;
}

static int collect_ticks(struct loop *l, struct err *e)
{
    int64_t wake = ledger_wake_us(l->ledger);
    if (!wake || ledger_now_us(l->ledger) < wake)
        return ERR_OK;
    int rc = ledger_begin(l->ledger, e);
    return rc == ERR_OK ? ledger_ticks(l->ledger, e) : rc;
}

static int collect(struct loop *l, struct err *e)
{
    int rc = collect_frames(l, e);
    if (rc == ERR_OK)
        rc = control_server_receive(&l->control, l->ledger, e);
    if (rc == ERR_OK)
        rc = collect_commands(l, e);
    if (rc == ERR_OK)
        rc = collect_ticks(l, e);
    if (rc != ERR_OK)
        return rc;
    struct mono begin = clock_mono(&l->o.clock);
    bool is_open = l->ledger->is_open;
    rc = ledger_commit(l->ledger, e);
    if (rc == ERR_OK && is_open) {
        double seconds = (double)mono_since_us(begin, clock_mono(&l->o.clock)) * 1e-6;
        gauges_commit(l->gauges, seconds, l->n_rows, true);
    }
    return rc;
}

static void answer(struct loop *l, const struct err *failure)
{
    for (uint32_t i = 0; i < l->n_running; i++) {
        struct command *c = l->running[i];
        if (failure && c->err.code == ERR_OK)
            c->err = *failure;
        c->done(c);
    }
    l->n_running = 0;
}

static void show(struct loop *l)
{
    struct err e;
    struct mono now = clock_mono(&l->o.clock);
    if (l->shown.us && mono_since_us(l->shown, now) < SHOW_EVERY_MS * 1000 && !l->n_running)
        return;
    l->shown = now;
    struct board_facts f = {.ledger = l->ledger,
                            .engines = &l->control,
                            .database = l->o.database,
                            .version = l->o.version,
                            .stale_ms = l->o.config->controller.engine_stale_ms,
                            .now_us = clock_wall(&l->o.clock).us,
                            .now = now,
                            .store = l->ledger->store};
    gauges_refresh(l->gauges, l->ledger, &l->control, f.now_us);
    if (board_put(l->o.board, &f, &e) != ERR_OK)
        log_event(LOG_ERROR, "board.failed", "why=\"%s\"", e.msg);
}

static void take_waiting(struct loop *l)
{
    struct command *c;
    while (l->n_running < MAX_COMMANDS && (c = queue_try_take(l->commands)))
        l->running[l->n_running++] = c;
}

/* Forgets the batch. The rows come again: their engines got no commit mark. Commands that wait are
 * told too: with rows coming in, each turn may fail before it reaches them. */
static int recover(struct loop *l, const struct err *why, struct err *e)
{
    log_event(LOG_ERROR, "commit.failed", "rows=%u why=\"%s\"", l->n_rows, why->msg);
    gauges_commit(l->gauges, 0, l->n_rows, false);
    int rc = ledger_abort(l->ledger, e);
    take_waiting(l);
    answer(l, why);
    struct timespec pause = {0, BACK_OFF_MS * 1000000L};
    if (rc == ERR_OK)
        nanosleep(&pause, NULL);
    return rc;
}

static int wait_ms(struct loop *l, int limit)
{
    int64_t wake = ledger_wake_us(l->ledger);
    if (wake) {
        int64_t left = (wake - ledger_now_us(l->ledger)) / 1000 + 1;
        if (left < limit)
            limit = left < 0 ? 0 : (int)left;
    }
    return limit;
}

/* Between batches, unless rows pile up: once a minute, or soon again when that left some over. */
static int expire(struct loop *l, struct err *e)
{
    struct mono now = clock_mono(&l->o.clock);
    uint64_t pause_us = l->has_more_to_expire ? EXPIRE_PAUSE_MS * 1000 : EXPIRE_EVERY_MS * 1000;
    if (l->n_rows >= l->o.config->controller.batch_rows ||
        (l->expired.us && mono_since_us(l->expired, now) < pause_us))
        return ERR_OK;
    l->expired = now;
    return ledger_expire(l->ledger, &l->has_more_to_expire, e);
}

/* What was committed for the threads beside this one. */
static void wake_others(struct loop *l)
{
    if (l->ledger->has_notices)
        webhooks_wake(l->webhooks);
    if (l->ledger->has_asked)
        exporter_wake(l->exporter);
    if (l->ledger->has_notices)
        gauges_webhooks(l->gauges, l->ledger);
    l->ledger->has_notices = l->ledger->has_asked = false;
}

int loop_turn(struct loop *l, int limit_ms, struct err *e)
{
    struct err why = {0};
    wait_for_work(l, wait_ms(l, limit_ms));
    l->n_rows = 0;
    if (collect(l, &why) != ERR_OK)
        return recover(l, &why, e);
    control_server_announce(&l->control, l->ledger);
    show(l);
    answer(l, NULL);
    wake_others(l);
    return expire(l, &why) == ERR_OK ? ERR_OK : recover(l, &why, e);
}

static int start_receiver(struct loop *l, struct err *e)
{
    int rc = receiver_start(l->receiver, e);
    if (rc != ERR_OK)
        return rc;
    const int fds[] = {queue_fd(l->commands), receiver_fd(l->receiver)};
    l->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        struct epoll_event ev = {.events = EPOLLIN};
        if (l->wake_fd < 0 || epoll_ctl(l->wake_fd, EPOLL_CTL_ADD, fds[i], &ev) != 0)
            return err_set_sys(e, ERR_IO, errno, "cannot watch the writer's queues");
    }
    return ERR_OK;
}

int loop_run(struct loop *l, struct err *e)
{
    int rc = start_receiver(l, e);
    if (rc == ERR_OK)
        rc = webhooks_start(l->webhooks, e);
    if (rc == ERR_OK)
        rc = exporter_start(l->exporter, e);
    l->ledger->has_notices = true; /* of the process before this one */
    while (rc == ERR_OK && !atomic_load(&l->is_stopping))
        rc = loop_turn(l, SHOW_EVERY_MS, e);
    struct err why;
    if (rc == ERR_OK && ledger_save(l->ledger, &why) != ERR_OK)
        log_event(LOG_WARN, "law.unsaved", "why=\"%s\"", why.msg);
    return rc;
}

struct db *loop_database(const struct loop *l)
{
    return store_db(l->ledger->store);
}

const struct ledger *loop_ledger(const struct loop *l)
{
    return l->ledger;
}

const char *loop_scores_address(const struct loop *l)
{
    return bus_socket_address(receiver_socket(l->receiver));
}

const char *loop_control_address(const struct loop *l)
{
    return bus_socket_address(l->control.socket);
}
