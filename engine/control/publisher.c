/* The publisher keeps no list of rows: the outbox is the truth, its own state is two numbers, a
 * time and what the controller said it holds. */
#include "engine/control/publisher.h"

#include "common/log.h"
#include "schemas/control.h"

enum { MAX_BACKOFF = 32, PUMP_MOST = 256, RETRY_US = 100000 };

int publisher_init(struct publisher *p, struct outbox *o, struct bus_socket *s, uint32_t resend_ms,
                   uint32_t window, struct mono now, struct err *e)
{
    struct outbox_state st;
    outbox_get_state(o, &st);
    *p = (struct publisher){.outbox = o,
                            .socket = s,
                            .last_sent = st.committed_seq,
                            .seen_committed = st.committed_seq,
                            .progress = now,
                            .resend_us = (uint64_t)resend_ms * 1000,
                            .wait_us = (uint64_t)resend_ms * 1000,
                            .window = window};
    buf_init(&p->row, OUTPUT_MAX_BYTES);
    return outbox_reader_open(&p->reader, o, e);
}

void publisher_fini(struct publisher *p)
{
    outbox_reader_close(p->reader);
    buf_free(&p->row);
}

/* Goes back to the mark when it has stood still too long below what was sent. */
static void maybe_rewind(struct publisher *p, uint64_t committed, struct mono now)
{
    if (committed != p->seen_committed || p->last_sent <= committed) {
        if (committed != p->seen_committed)
            p->wait_us = p->resend_us;
        p->seen_committed = committed;
        p->progress = now;
        return;
    }
    if (mono_since_us(p->progress, now) < p->wait_us)
        return;
    log_event(LOG_WARN, "wire.resend", "from=%llu to=%llu waited_ms=%llu",
              (unsigned long long)committed + 1, (unsigned long long)p->last_sent,
              (unsigned long long)p->wait_us / 1000);
    if (p->resends)
        metric_inc(p->resends);
    if (!p->is_held_fresh) /* another controller, perhaps, with an older database */
        p->n_held = 0;
    p->is_held_fresh = false;
    p->last_sent = committed;
    p->progress = now;
    if (p->wait_us < p->resend_us * MAX_BACKOFF)
        p->wait_us *= 2;
}

void publisher_hear_held(struct publisher *p, struct str held)
{
    p->n_held = 0;
    p->is_held_fresh = true;
    while (p->n_held < PUBLISHER_HELD &&
           control_held_next(&held, &p->held[p->n_held].first, &p->held[p->n_held].last))
        p->n_held++;
}

static uint64_t past_held(const struct publisher *p, uint64_t seq)
{
    for (uint32_t i = 0; i < p->n_held; i++)
        if (seq >= p->held[i].first && seq <= p->held[i].last)
            seq = p->held[i].last + 1;
    return seq;
}

static bool send_next(struct publisher *p)
{
    uint64_t seq = past_held(p, p->last_sent + 1);
    struct err e;
    p->last_sent = seq - 1;
    if (outbox_read(p->reader, &seq, &p->row, &e) != ERR_OK)
        return false;
    if (bus_send(p->socket, (struct str){NULL, 0}, buf_str(&p->row), &e) != ERR_OK)
        return false;
    p->last_sent = seq; /* may jump over dropped rows */
    if (p->sent)
        metric_inc(p->sent);
    return true;
}

uint32_t publisher_pump(struct publisher *p, struct mono now)
{
    struct outbox_state st;
    outbox_get_state(p->outbox, &st);
    if (p->last_sent < st.committed_seq)
        p->last_sent = st.committed_seq;
    maybe_rewind(p, st.committed_seq, now);
    uint32_t n = 0;
    uint64_t until = st.committed_seq + p->window;
    while (n < PUMP_MOST && p->last_sent < until && p->last_sent + 1 < st.next_seq && send_next(p))
        n++;
    if (n)
        p->progress = now;
    return n;
}

uint64_t publisher_next_us(const struct publisher *p, struct mono now)
{
    struct outbox_state st;
    outbox_get_state(p->outbox, &st);
    bool has_room = p->last_sent < st.committed_seq + p->window;
    if (has_room && p->last_sent + 1 < st.next_seq) /* the peer is busy, or there is none */
        return now.us + RETRY_US;
    return p->last_sent > st.committed_seq ? p->progress.us + p->wait_us : UINT64_MAX;
}
