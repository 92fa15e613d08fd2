/* Nothing an engine stored is lost on its way, or passed over, or forgotten before its time.
 * Invariant: a row is let go only when it is committed, or dropped by an outbox that is full. */
#include "tests/sim/audit_parts.h"

static bool is_gap(struct audit *a, const struct sim_engine *g, uint64_t seq)
{
    struct db_stmt *q;
    struct err e;
    struct outbox_state st;
    outbox_get_state(g->outbox, &st);
    WORLD_TRY(a->world, store_statement(a->store,
                                        "SELECT last_seq FROM gaps WHERE engine=?1 AND epoch=?2 "
                                        "AND first_seq<=?3 ORDER BY first_seq DESC LIMIT 1",
                                        &q, &world_err));
    db_bind_str(q, 1, str_from(g->id));
    db_bind_i64(q, 2, (int64_t)st.epoch);
    db_bind_i64(q, 3, (int64_t)seq);
    if (db_step(q, &e) != ERR_OK)
        return false;
    bool is_in = (uint64_t)db_col_i64(q, 0) >= seq;
    db_reset(q);
    return is_in;
}

static void check_kept(struct audit *a, const struct sim_engine *g, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq <= to; seq++)
        if (!g->fact[g->admission_of[seq]].is_committed && !is_gap(a, g, seq))
            world_fail(a->world, "engine %s forgot seq %llu, which is neither committed nor a gap",
                       g->id, (unsigned long long)seq);
}

void audit_mark(struct audit *a, struct sim_engine *g, uint64_t committed_seq)
{
    if (a->document && committed_seq > g->mark)
        check_kept(a, g, g->mark + 1, committed_seq);
    g->mark = committed_seq;
}

static void check_gap(struct audit *a, struct str engine, uint64_t first, uint64_t last)
{
    const struct sim_engine *g = audit_engine(a, engine);
    struct outbox_state st = {.oldest_seq = UINT64_MAX};
    if (g->outbox)
        outbox_get_state(g->outbox, &st);
    for (uint64_t seq = first; seq <= last; seq++)
        if (seq >= st.oldest_seq || g->fact[g->admission_of[seq]].is_committed)
            world_fail(a->world, "a gap from %llu to %llu: engine %s did not drop %llu",
                       (unsigned long long)first, (unsigned long long)last, g->id,
                       (unsigned long long)seq);
}

/* A batch takes what came of an engine before it notes what is gone; more may come late. */
void audit_gaps(struct audit *a)
{
    struct db_stmt *q;
    WORLD_TRY(a->world, store_statement(a->store,
                                        "SELECT rowid,engine,first_seq,last_seq FROM gaps WHERE "
                                        "rowid>?1 ORDER BY rowid",
                                        &q, &world_err));
    db_bind_i64(q, 1, a->gap);
    while (db_step(q, NULL) == ERR_OK) {
        a->gap = db_col_i64(q, 0);
        check_gap(a, db_col_str(q, 1), (uint64_t)db_col_i64(q, 2), (uint64_t)db_col_i64(q, 3));
    }
}

static void count_gaps(struct audit *a, const struct sim_engine *g)
{
    struct outbox_state st;
    uint64_t n_gap = 0;
    outbox_get_state(g->outbox, &st);
    for (uint64_t seq = 1; seq <= g->n_seq; seq++) {
        bool is_committed = g->fact[g->admission_of[seq]].is_committed;
        bool is_lost = st.dropped && is_gap(a, g, seq);
        n_gap += is_lost;
        a->sums.n_late += is_lost && is_committed;
    }
    a->sums.n_gap += n_gap;
    if (n_gap > st.dropped)
        world_fail(a->world, "%llu gaps, but engine %s dropped only %llu",
                   (unsigned long long)n_gap, g->id, (unsigned long long)st.dropped);
}

void audit_delivered(struct audit *a, const struct sim_engine *g)
{
    check_kept(a, g, 1, g->n_seq);
    count_gaps(a, g);
}

/* Each send takes up where the one before it ended, or where the mark is; what lies between was
 * left out. */
void audit_send(struct audit *a, const struct sim_engine *g, uint64_t seq)
{
    struct outbox_state st;
    if (!a->document)
        return;
    outbox_get_state(g->outbox, &st);
    uint64_t from = a->sent[g->index];
    if (from >= seq || from < st.committed_seq)
        from = st.committed_seq;
    if (from + 1 < st.oldest_seq)
        from = st.oldest_seq - 1; /* what is lower was dropped */
    for (uint64_t s = from + 1; s < seq; s++)
        if (!g->fact[g->admission_of[s]].is_committed)
            world_fail(a->world, "engine %s sent seq %llu and passed over %llu, which nobody has",
                       g->id, (unsigned long long)seq, (unsigned long long)s);
    a->sent[g->index] = seq;
}
