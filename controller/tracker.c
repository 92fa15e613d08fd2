/* Ranges of committed sequence numbers; see the header.
 *
 * Forgetting the highest range when there are too many is safe: the engine sends those rows again
 * and they are found in the store. */
#include "controller/tracker.h"

#include <stdlib.h>
#include <string.h>

struct tracker *tracker_new(void)
{
    return calloc(1, sizeof(struct tracker));
}

void tracker_free(struct tracker *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->n_source; i++)
        free(t->source[i].waiting);
    free(t);
}

struct tracker_source *tracker_find(struct tracker *t, struct str engine, uint64_t epoch,
                                    bool may_add)
{
    for (uint32_t i = 0; i < t->n_source; i++) {
        if (t->source[i].epoch == epoch && str_eq_c(engine, t->source[i].engine))
            return &t->source[i];
    }
    if (!may_add || t->n_source == TRACKER_MAX_SOURCES || engine.n > CODEC_MAX_NAME)
        return NULL;
    struct tracker_source *s = &t->source[t->n_source];
    struct seq_range *waiting = calloc(TRACKER_MAX_RANGES + 1, sizeof *waiting);
    if (!waiting)
        return NULL;
    *s = (struct tracker_source){.epoch = epoch, .waiting = waiting};
    memcpy(s->engine, engine.p, engine.n);
    t->n_source++;
    return s;
}

static void remove_ranges(struct tracker_source *s, uint32_t at, uint32_t n)
{
    memmove(&s->waiting[at], &s->waiting[at + n], (s->n_waiting - at - n) * sizeof *s->waiting);
    s->n_waiting -= n;
}

static void move_mark(struct tracker_source *s, uint64_t mark)
{
    s->mark = mark;
    uint32_t n = 0;
    while (n < s->n_waiting && s->waiting[n].first <= s->mark + 1) {
        if (s->waiting[n].last > s->mark)
            s->mark = s->waiting[n].last;
        n++;
    }
    remove_ranges(s, 0, n);
    s->is_changed = true;
}

static void insert_range(struct tracker_source *s, uint32_t at, uint64_t seq)
{
    memmove(&s->waiting[at + 1], &s->waiting[at], (s->n_waiting - at) * sizeof *s->waiting);
    s->waiting[at] = (struct seq_range){seq, seq};
    if (s->n_waiting < TRACKER_MAX_RANGES)
        s->n_waiting++;
}

void tracker_add(struct tracker_source *s, uint64_t seq)
{
    s->is_changed |= !s->has_rows; /* a mark of 0 too: by it a restart finds what is above */
    s->has_rows = true;
    if (seq <= s->mark)
        return;
    s->has_news = true;
    if (seq == s->mark + 1) {
        move_mark(s, seq);
        return;
    }
    uint32_t i = 0; /* first range that ends at seq - 1 or later */
    while (i < s->n_waiting && s->waiting[i].last + 1 < seq)
        i++;
    if (i == s->n_waiting || s->waiting[i].first > seq + 1) {
        insert_range(s, i, seq);
        return;
    }
    struct seq_range *r = &s->waiting[i];
    if (seq < r->first)
        r->first = seq;
    if (seq > r->last)
        r->last = seq;
    if (i + 1 < s->n_waiting && s->waiting[i + 1].first == r->last + 1) {
        r->last = s->waiting[i + 1].last;
        remove_ranges(s, i + 1, 1);
    }
}

uint32_t tracker_note_oldest(struct tracker_source *s, uint64_t oldest, uint64_t dropped,
                             struct seq_range *holes, uint32_t cap)
{
    if (oldest <= s->mark + 1)
        return 0;
    uint64_t from = s->mark + 1;
    /* A new acquaintance: what is below and not said to be dropped went elsewhere. */
    if (!s->has_rows && s->mark == 0 && dropped < oldest - 1)
        from = oldest - dropped;
    uint32_t n = 0;
    for (uint32_t i = 0; i <= s->n_waiting && from < oldest; i++) {
        uint64_t next = i < s->n_waiting ? s->waiting[i].first : oldest;
        uint64_t end = next < oldest ? next : oldest;
        if (end > from && n < cap)
            holes[n++] = (struct seq_range){from, end - 1};
        if (i < s->n_waiting && s->waiting[i].last + 1 > from)
            from = s->waiting[i].last + 1;
    }
    move_mark(s, oldest - 1);
    return n;
}
