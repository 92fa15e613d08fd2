/* Control messages. An engine that is not there misses nothing: it says hello when it comes, and
 * gets the whole document. */
#include "controller/control_server.h"

#include "common/log.h"
#include "controller/store/applied.h"

#include <stdio.h>
#include <string.h>

enum { PUSH_AGAIN_MS = 1000, MAX_MESSAGES_A_TURN = 256, FRAME_BYTES = 8 * 1024 * 1024 };

void control_server_init(struct control_server *cs, struct bus_socket *socket, struct clock clock)
{
    *cs = (struct control_server){.socket = socket, .clock = clock};
    buf_init(&cs->frame, FRAME_BYTES);
    buf_init(&cs->text, FRAME_BYTES);
    buf_init(&cs->identity, KiB);
    buf_init(&cs->held, CONTROL_HELD_BYTES);
    arena_init(&cs->arena, 32 * MiB);
}

void control_server_fini(struct control_server *cs)
{
    engine_orders_expire(&cs->orders, (struct mono){UINT64_MAX});
    bus_socket_close(cs->socket);
    buf_free(&cs->frame);
    buf_free(&cs->text);
    buf_free(&cs->identity);
    buf_free(&cs->held);
    arena_free(&cs->arena);
}

static void copy_text(char *out, size_t cap, struct str s)
{
    size_t n = s.n < cap ? s.n : cap - 1;
    memcpy(out, s.p ? s.p : "", n);
    out[n] = 0;
}

/* By engine id; a new one takes the place of the one silent for longest when there is no room. */
static struct engine_peer *peer_of(struct control_server *cs, struct str engine)
{
    struct engine_peer *oldest = &cs->peer[0];
    for (uint32_t i = 0; i < cs->n_peer; i++) {
        if (str_eq_c(engine, cs->peer[i].engine))
            return &cs->peer[i];
        if (cs->peer[i].seen.us < oldest->seen.us)
            oldest = &cs->peer[i];
    }
    struct engine_peer *p = cs->n_peer < CONTROL_MAX_ENGINES ? &cs->peer[cs->n_peer++] : oldest;
    *p = (struct engine_peer){0};
    copy_text(p->engine, sizeof p->engine, engine);
    return p;
}

static struct engine_peer *seen(struct control_server *cs, struct str engine)
{
    struct engine_peer *p = peer_of(cs, engine);
    p->seen = clock_mono(&cs->clock);
    struct str id = buf_str(&cs->identity);
    p->n_identity = id.n < sizeof p->identity ? id.n : sizeof p->identity;
    memcpy(p->identity, id.p, p->n_identity);
    return p;
}

/* Holes below what the engine still holds; a transaction only when there is one. */
static int note_oldest(struct ledger *l, struct str engine, const struct control_heartbeat *b,
                       struct err *e)
{
    struct tracker_source *s = tracker_find(l->tracker, engine, b->epoch, true);
    if (!s)
        return ERR_OK;
    if (b->oldest_seq <= s->mark) /* it has not heard the last mark: say it again */
        s->announced = 0;
    s->has_news = s->n_waiting > 0; /* nor, perhaps, what is held above it */
    if (b->oldest_seq <= s->mark + 1)
        return ERR_OK;
    int rc = ledger_begin(l, e);
    return rc == ERR_OK
               ? ledger_note_oldest(l, engine, b->epoch, b->oldest_seq, b->outbox_dropped, e)
               : rc;
}

static int put_engine(struct ledger *l, const struct engine_peer *p, struct err *e)
{
    struct stored_engine g = {.engine = str_from(p->engine),
                              .model = str_from(p->model),
                              .weights = str_from(p->weights),
                              .version = str_from(p->version),
                              .epoch = p->beat.epoch,
                              .desired_version = p->beat.desired_version,
                              .crashes = p->crashes};
    int rc = ledger_begin(l, e);
    g.seen_us = l->now_us;
    return rc == ERR_OK ? store_put_engine(l->store, &g, e) : rc;
}

/* An engine that applied a version of a database that is gone must see a higher one. */
static int outgrow(struct ledger *l, uint64_t applied, struct err *e)
{
    if (applied <= l->desired_version)
        return ERR_OK;
    l->desired_version = applied;
    l->desired_hash[0] = 0; /* the commit gives the next number */
    return ledger_begin(l, e);
}

/* Which engine serves which version, and since when, is kept (`milepost why`). */
static int note_applied(struct ledger *l, const struct engine_peer *p, uint64_t version,
                        struct err *e)
{
    if (version == 0 || version == p->beat.desired_version)
        return ERR_OK;
    int rc = ledger_begin(l, e);
    return rc == ERR_OK ? store_put_applied(l->store, str_from(p->engine), version, l->now_us, e)
                        : rc;
}

/* Engines say hello again now and then: only news is written and logged. */
static bool is_news(const struct engine_peer *p, const struct control_hello *h)
{
    return p->beat.epoch != h->epoch || p->crashes != h->crashes ||
           p->beat.desired_version > h->desired_version || !str_eq_c(h->model, p->model) ||
           !str_eq_c(h->weights, p->weights) || !str_eq_c(h->version, p->version);
}

/* Says so when the outbox that was here before has ended badly since; a new one has no past. */
static int note_crash(struct ledger *l, const struct control_hello *h, struct err *e)
{
    uint64_t before;
    int rc = store_get_crashes(l->store, h->engine, h->epoch, &before, e);
    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && h->crashes <= before))
        return ERR_OK;
    if (rc == ERR_OK)
        rc = ledger_begin(l, e);
    if (rc == ERR_OK)
        log_event(LOG_WARN, "engine.crashed", "engine=" STR_FMT " crashes=%llu applied=%llu",
                  STR_ARG(h->engine), (unsigned long long)h->crashes,
                  (unsigned long long)h->desired_version);
    return rc == ERR_OK ? ledger_note_crash(l, h->engine, h->desired_version, e) : rc;
}

static int on_news(struct ledger *l, struct engine_peer *p, const struct control_hello *h,
                   struct err *e)
{
    struct tracker_source *s = tracker_find(l->tracker, h->engine, h->epoch, true);
    copy_text(p->model, sizeof p->model, h->model);
    copy_text(p->weights, sizeof p->weights, h->weights);
    copy_text(p->version, sizeof p->version, h->version);
    p->beat = (struct control_heartbeat){.epoch = h->epoch,
                                         .next_seq = h->next_seq,
                                         .oldest_seq = h->oldest_seq,
                                         .desired_version = h->desired_version};
    p->pushed_version = 0;
    p->crashes = h->crashes;
    if (s)
        s->announced = 0;
    log_event(LOG_INFO, "engine.hello", "engine=%s epoch=%llu next_seq=%llu applied=%llu",
              p->engine, (unsigned long long)h->epoch, (unsigned long long)h->next_seq,
              (unsigned long long)h->desired_version);
    int rc = note_crash(l, h, e);
    return rc == ERR_OK ? put_engine(l, p, e) : rc;
}

static int on_hello(struct control_server *cs, struct ledger *l, const struct control_hello *h,
                    struct err *e)
{
    struct engine_peer *p = seen(cs, h->engine);
    int rc = outgrow(l, h->desired_version, e);
    if (rc == ERR_OK)
        rc = note_applied(l, p, h->desired_version, e);
    if (rc == ERR_OK && is_news(p, h))
        return on_news(l, p, h, e);
    p->beat.desired_version = h->desired_version;
    return rc;
}

static int on_heartbeat(struct control_server *cs, struct ledger *l,
                        const struct control_heartbeat *b, struct err *e)
{
    struct engine_peer *p = seen(cs, b->engine);
    if (p->beat.oldest_seq != b->oldest_seq || b->outbox_rows == 0 || p->oldest_since.us == 0)
        p->oldest_since = p->seen;
    int rc = note_applied(l, p, b->desired_version, e);
    p->beat = *b;
    p->beat.engine = (struct str){0};
    if (rc == ERR_OK)
        rc = outgrow(l, b->desired_version, e);
    return rc == ERR_OK ? note_oldest(l, b->engine, b, e) : rc;
}

static int on_applied(struct control_server *cs, struct ledger *l, const struct control_applied *a,
                      struct err *e)
{
    struct engine_peer *p = seen(cs, a->engine);
    bool is_news = p->beat.desired_version != a->desired_version;
    int rc = note_applied(l, p, a->desired_version, e);
    p->beat.desired_version = a->desired_version;
    /* A document of before this process, or of before the last one, says nothing about the way. */
    if (is_news && cs->on_applied && a->desired_version == cs->text_version && cs->committed.us)
        cs->on_applied(cs->on_applied_ctx, p, mono_since_us(cs->committed, p->seen));
    return rc;
}

static int on_message(struct control_server *cs, struct ledger *l, struct err *e)
{
    struct control m;
    struct err why = {0};
    arena_reset(&cs->arena);
    if (control_decode(buf_str(&cs->frame), &cs->arena, &m, &why) != ERR_OK) {
        log_event(LOG_WARN, "control.refused", "why=\"%s\"", why.msg);
        return ERR_OK;
    }
    switch (m.type) {
    case CONTROL_HELLO:
        return on_hello(cs, l, &m.hello, e);
    case CONTROL_HEARTBEAT:
        return on_heartbeat(cs, l, &m.heartbeat, e);
    case CONTROL_APPLIED:
        return on_applied(cs, l, &m.applied, e);
    case CONTROL_RESULT:
        engine_orders_result(&cs->orders, buf_str(&cs->identity), &m.result);
        return ERR_OK;
    default:
        log_event(LOG_WARN, "control.refused", "why=\"an engine does not send this type\"");
        return ERR_OK;
    }
}

double control_server_oldest_seconds(const struct control_server *cs)
{
    struct mono now = clock_mono(&cs->clock);
    double longest = 0.0;
    for (uint32_t i = 0; i < cs->n_peer; i++) {
        const struct engine_peer *p = &cs->peer[i];
        double s = (double)mono_since_us(p->oldest_since, now) * 1e-6;
        if (p->beat.outbox_rows && s > longest)
            longest = s;
    }
    return longest;
}

int control_server_receive(struct control_server *cs, struct ledger *l, struct err *e)
{
    struct err why;
    int rc = ERR_OK;
    for (int i = 0; rc == ERR_OK && i < MAX_MESSAGES_A_TURN; i++) {
        int got = bus_receive(cs->socket, 0, &cs->identity, &cs->frame, &why);
        if (got == ERR_TIMEOUT)
            break;
        if (got == ERR_OK)
            rc = on_message(cs, l, e);
    }
    engine_orders_expire(&cs->orders, clock_mono(&cs->clock));
    return rc;
}

static int encode_desired(struct control_server *cs, struct ledger *l, struct err *e)
{
    struct control m = {.type = CONTROL_DESIRED};
    if (cs->text_version == l->desired_version)
        return ERR_OK;
    arena_reset(&cs->arena);
    buf_reset(&cs->text);
    int rc = ledger_desired(l, &cs->arena, &m.desired, e);
    if (rc == ERR_OK)
        rc = control_encode(&m, &cs->text, e);
    if (rc == ERR_OK) {
        cs->committed = cs->text_version ? l->committed : (struct mono){0};
        cs->text_version = l->desired_version;
    }
    return rc;
}

static void push_desired(struct control_server *cs, struct engine_peer *p)
{
    struct err e;
    struct mono now = clock_mono(&cs->clock);
    if (p->beat.desired_version == cs->text_version)
        return;
    if (p->pushed_version == cs->text_version &&
        mono_since_us(p->pushed, now) < PUSH_AGAIN_MS * 1000)
        return;
    if (bus_send(cs->socket, (struct str){p->identity, p->n_identity}, buf_str(&cs->text), &e) !=
        ERR_OK)
        return;
    p->pushed = now;
    p->pushed_version = cs->text_version;
}

/* What is above a hole need not come again. */
static struct str held_of(struct control_server *cs, const struct tracker_source *s)
{
    buf_reset(&cs->held);
    for (uint32_t i = 0; i < s->n_waiting; i++)
        control_held_put(&cs->held, s->waiting[i].first, s->waiting[i].last);
    return buf_str(&cs->held);
}

static bool has_to_say(const struct tracker_source *s)
{
    return (s->mark && s->mark != s->announced) || (s->has_news && s->n_waiting);
}

static void tell_mark(struct control_server *cs, struct tracker_source *s)
{
    struct err e;
    if (!has_to_say(s))
        return;
    struct control m = {.type = CONTROL_COMMIT,
                        .commit = {str_from(s->engine), s->epoch, s->mark, held_of(cs, s)}};
    for (uint32_t i = 0; i < cs->n_peer; i++) {
        struct engine_peer *p = &cs->peer[i];
        if (p->beat.epoch != s->epoch || strcmp(p->engine, s->engine) != 0)
            continue;
        buf_reset(&cs->frame);
        if (control_encode(&m, &cs->frame, &e) != ERR_OK ||
            bus_send(cs->socket, (struct str){p->identity, p->n_identity}, buf_str(&cs->frame),
                     &e) != ERR_OK)
            continue;
        s->announced = s->mark;
        s->has_news = false;
    }
}

void control_server_announce(struct control_server *cs, struct ledger *l)
{
    struct err e;
    if (encode_desired(cs, l, &e) != ERR_OK) {
        log_event(LOG_ERROR, "desired.failed", "why=\"%s\"", e.msg);
        return;
    }
    for (uint32_t i = 0; i < cs->n_peer; i++)
        push_desired(cs, &cs->peer[i]);
    for (uint32_t i = 0; i < l->tracker->n_source; i++)
        tell_mark(cs, &l->tracker->source[i]);
}

static int find_engine(const struct control_server *cs, struct str name, int64_t stale_ms,
                       const struct engine_peer **out, struct err *e)
{
    const struct engine_peer *found = NULL;
    for (uint32_t i = 0; i < cs->n_peer; i++)
        if (name.n == 0 || str_eq_c(name, cs->peer[i].engine))
            found = &cs->peer[i];
    if (name.n == 0 && cs->n_peer > 1)
        return err_set(e, ERR_INVALID, "%u engines are here: say which one (milepost engine list)",
                       cs->n_peer);
    if (!found)
        return err_set(e, ERR_NOT_FOUND,
                       "no engine '" STR_FMT "' has reported (milepost engine list)",
                       STR_ARG(name));
    int64_t age_ms = (int64_t)(mono_since_us(found->seen, clock_mono(&cs->clock)) / 1000);
    if (age_ms > stale_ms)
        return err_set(e, ERR_CONFLICT, "engine %s is away: last heard %lld s ago", found->engine,
                       (long long)age_ms / 1000);
    *out = found;
    return ERR_OK;
}

void control_server_order(struct control_server *cs, struct command *c, int64_t stale_ms)
{
    const struct engine_peer *p = NULL;
    int rc = find_engine(cs, c->engine, stale_ms, &p, &c->err);
    if (rc == ERR_OK)
        c->engine = arena_str(&c->arena, str_from(p->engine));
    if (rc == ERR_OK)
        rc = engine_orders_send(&cs->orders, cs->socket, (struct str){p->identity, p->n_identity},
                                clock_mono(&cs->clock), c, &c->err);
    if (rc != ERR_OK)
        c->done(c);
}
