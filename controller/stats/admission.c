/* controller/stats/admission.c - reorder buffer over several engines.
 *
 * Invariant: for each source, released admissions strictly increase, except after the source
 * visibly restarted its numbers. `held` keeps arrival order, so that the result depends on
 * the sequence of calls only. Controller's writer thread, simulator, replay. */
#include "controller/stats/admission.h"

#include <string.h>

static struct admission_source *find_source(struct admission_queue *q, uint64_t id)
{
    struct admission_source *idlest = &q->source[0];
    for (int i = 0; i < ADMISSION_SOURCES; i++) {
        struct admission_source *s = &q->source[i];
        if (s->used && s->id == id)
            return s;
        if (!s->used)
            s->rows = 0;
        if (s->rows < idlest->rows)
            idlest = s;
    }
    *idlest = (struct admission_source){.id = id, .used = 1};
    q->is_settled = false;
    return idlest;
}

static uint64_t key_of(uint64_t source, uint64_t admission)
{
    return source ^ admission * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t bucket_of(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 52;
}

static bool is_gone(const struct unit_row *row)
{
    return row->flags & UNIT_GONE;
}

/* Of the rows whose keys share a bucket each names the one before it, and the bucket the last. */
static void add_key(struct admission_queue *q, const struct unit_row *row)
{
    struct admission_place *p = &q->place[q->n_place++];
    uint32_t *last = &q->last[bucket_of(key_of(row->source, row->admission))];
    *p = (struct admission_place){.arrival = ++q->n_arrival, .before = *last};
    *last = p->arrival;
}

/* Arrivals rise: halving, without a jump that could be guessed wrong. */
static uint32_t place_of(const struct admission_queue *q, uint32_t arrival)
{
    uint32_t at = 0;
    for (uint32_t step = ADMISSION_HELD / 2; step; step /= 2)
        at += at + step < q->n_place && q->place[at + step].arrival <= arrival ? step : 0;
    return at;
}

/* The one that is held with this number (a second is refused); n_held = none. */
static uint32_t find_held(const struct admission_queue *q, uint64_t source, uint64_t admission)
{
    uint32_t arrival = q->last[bucket_of(key_of(source, admission))];
    while (arrival) {
        uint32_t i = place_of(q, arrival);
        if (q->held[i].source == source && q->held[i].admission == admission)
            return i;
        arrival = q->place[i].before;
    }
    return q->n_held;
}

static bool is_next(const struct admission_source *s, uint64_t admission)
{
    return admission == s->next || (s->next == 0 && admission == 1);
}

static void forget_key(struct admission_queue *q, uint32_t i)
{
    const struct unit_row *row = &q->held[i];
    uint32_t *to = &q->last[bucket_of(key_of(row->source, row->admission))];
    while (*to != q->place[i].arrival)
        to = &q->place[place_of(q, *to)].before;
    *to = q->place[i].before;
}

/* The rows behind it move up once for all that are given in a row: a filled hole gives hundreds. */
static void remove_held(struct admission_queue *q, uint32_t i)
{
    q->held[i].flags |= UNIT_GONE;
    forget_key(q, i);
    if (q->n_gone++ == 0 || i < q->first_gone)
        q->first_gone = i;
}

static void make_keys(struct admission_queue *q)
{
    if (q->n_place == q->n_held && q->n_arrival < UINT32_MAX)
        return;
    q->n_place = q->n_arrival = q->n_gone = 0;
    memset(q->last, 0, sizeof q->last);
    for (uint32_t i = 0; i < q->n_held; i++) {
        add_key(q, &q->held[i]);
        if (is_gone(&q->held[i])) /* as a stored state may have it */
            remove_held(q, i);
    }
}

static void compact(struct admission_queue *q)
{
    uint32_t n = q->first_gone;
    if (q->n_gone == 0)
        return;
    for (uint32_t i = n; i < q->n_held; i++)
        if (!is_gone(&q->held[i])) {
            if (n != i) {
                q->held[n] = q->held[i];
                q->place[n] = q->place[i];
            }
            n++;
        }
    q->n_held = q->n_place = n;
    q->n_gone = 0;
}

/* Index of the lowest admission held of the source of row `i`. */
static uint32_t lowest_of(const struct admission_queue *q, uint32_t i)
{
    uint32_t low = i;
    for (uint32_t j = 0; j < q->n_held; j++)
        if (q->held[j].source == q->held[i].source && q->held[j].admission < q->held[low].admission)
            low = j;
    return low;
}

/* Gives up the hole before the row that has waited longest: its source goes on with its lowest. */
static void skip_hole(struct admission_queue *q)
{
    const struct unit_row *low = &q->held[lowest_of(q, 0)];
    struct admission_source *s = find_source(q, low->source);
    if (s->next > 0 &&
        low->admission > s->next) /* what was before its first row is nobody's loss */
        q->n_missing += low->admission - s->next;
    s->next = low->admission;
    q->is_settled = false;
}

bool admission_put(struct admission_queue *q, const struct unit_row *row)
{
    struct admission_source *s = find_source(q, row->source);
    compact(q);
    make_keys(q);
    s->rows++;
    if (row->admission < s->next) {
        q->n_late++;
        /* Nothing but late rows for this long: the engine began to count again. */
        if (++s->late_run < ADMISSION_RESTART_LATE)
            return false;
        s->next = 0;
        q->is_settled = false;
    }
    s->late_run = 0;
    if (find_held(q, row->source, row->admission) < q->n_held) {
        q->n_duplicate++;
        return false;
    }
    if (q->n_held == ADMISSION_HELD) {
        /* Only when the caller did not drain: the row that waited longest is lost to statistics. */
        q->n_missing++;
        remove_held(q, 0);
        compact(q);
    }
    add_key(q, row);
    q->held[q->n_held++] = *row;
    q->is_settled = q->is_settled && !is_next(s, row->admission);
    return true;
}

static bool give(struct admission_queue *q, struct admission_source *s, uint32_t i,
                 struct unit_row *out)
{
    *out = q->held[i];
    s->next = out->admission + 1;
    q->is_settled = false;
    remove_held(q, i);
    return true;
}

/* While a place for a source is free, no source was ever dropped: all that are held are known. */
static bool has_all_sources(const struct admission_queue *q)
{
    for (int i = 0; i < ADMISSION_SOURCES; i++)
        if (!q->source[i].used)
            return true;
    return false;
}

static bool take_known(struct admission_queue *q, struct unit_row *out)
{
    struct admission_source *of = NULL;
    uint32_t first = q->n_held;
    for (int k = 0; k < ADMISSION_SOURCES; k++) {
        struct admission_source *s = &q->source[k];
        for (uint64_t n = s->next; s->used && (n == s->next || (s->next == 0 && n == 1)); n++) {
            uint32_t i = find_held(q, s->id, n);
            of = i < first ? s : of;
            first = i < first ? i : first;
        }
    }
    return of ? give(q, of, first, out) : false;
}

static bool take_in_order(struct admission_queue *q, struct unit_row *out)
{
    struct admission_source *s = NULL;
    if (q->is_settled)
        return false;
    q->is_settled = true; /* unless looking for a source drops another */
    make_keys(q);
    if (has_all_sources(q))
        return take_known(q, out);
    for (uint32_t i = 0; i < q->n_held; i++) {
        if (is_gone(&q->held[i]))
            continue;
        if (!s || !s->used || s->id != q->held[i].source)
            s = find_source(q, q->held[i].source);
        if (is_next(s, q->held[i].admission))
            return give(q, s, i, out);
    }
    return false;
}

bool admission_take(struct admission_queue *q, uint64_t now_us, uint64_t deadline_us,
                    struct unit_row *out)
{
    if (take_in_order(q, out))
        return true;
    compact(q);
    if (q->n_held == 0)
        return false;
    bool is_due =
        now_us >= q->held[0].committed_us && now_us - q->held[0].committed_us >= deadline_us;
    if (!is_due && q->n_held < ADMISSION_HELD)
        return false;
    skip_hole(q);
    return take_in_order(q, out);
}

uint64_t admission_wake_us(const struct admission_queue *q, uint64_t deadline_us)
{
    return q->n_held ? q->held[0].committed_us + deadline_us : 0;
}
