/* Who starts next: the highest level, then who was preempted, then the user served least, then who
 * came first. A request whose next blocks a running one is about to compute is passed over until
 * they are there, so that equal prompts that arrive together are computed once. When the chosen one
 * does not fit nobody overtakes it: large requests get their turn. */
#include "engine/sched/state.h"

#include <string.h>

int64_t sched_level(const struct scheduler *s, const struct sequence *q, struct mono now)
{
    uint64_t aged = mono_since_us(q->submitted, now) / s->config.aging_us;
    return q->request.priority + (int64_t)aged;
}

static bool is_before(const struct scheduler *s, const struct sequence *a, const struct sequence *b,
                      struct mono now)
{
    int64_t x = sched_level(s, a, now), y = sched_level(s, b, now);
    if (x != y)
        return x > y;
    if ((a->n_preempted > 0) != (b->n_preempted > 0)) /* its client sees a stream that stands */
        return a->n_preempted > 0;
    return share_served(&s->share, a->user) < share_served(&s->share, b->user);
}

/* Followers are not looked at: thousands of equal prompts would each cost a walk through all. */
static struct sequence *next_candidate(const struct scheduler *s, struct mono now)
{
    struct sequence *best = NULL;
    for (struct sequence *q = s->waiting; q; q = q->next)
        if (q->tried != s->n_plans && !seq_is_following(q) && (!best || is_before(s, q, best, now)))
            best = q;
    return best;
}

/* Prefix. */

/* The last token is always computed: its logits are wanted. */
static uint32_t usable_blocks(const struct sequence *q)
{
    return (q->n_tokens - 1) / KV_BLOCK_TOKENS;
}

static uint32_t find_next(const struct scheduler *s, const struct sequence *q, uint32_t entry,
                          uint32_t n_blocks)
{
    return prefix_cache_find(s->cache, entry, q->tokens + n_blocks * KV_BLOCK_TOKENS);
}

static uint32_t cached_blocks(const struct scheduler *s, const struct sequence *q)
{
    uint32_t n = 0, usable = usable_blocks(q), entry = PREFIX_ROOT;
    while (n < usable && (entry = find_next(s, q, entry, n)) != PREFIX_NONE)
        n++;
    return n;
}

static void match_prefix(struct scheduler *s, struct sequence *q)
{
    uint32_t usable = s->cache ? usable_blocks(q) : 0;
    while (q->n_blocks < usable) {
        uint32_t entry = find_next(s, q, q->cache_entry, q->n_blocks);
        if (entry == PREFIX_NONE)
            break;
        uint32_t block = prefix_cache_block(s->cache, entry);
        kv_pool_share(s->pool, block);
        q->blocks[q->n_blocks++] = block;
        q->cache_entry = entry;
    }
    if (q->n_blocks)
        prefix_cache_touch(s->cache, q->cache_entry);
    q->n_in_cache = q->n_blocks;
    q->n_computed = q->n_blocks * KV_BLOCK_TOKENS;
}

static uint32_t common_tokens(const struct sequence *q, const struct sequence *r)
{
    uint32_t n = 0, most = min_u32(q->n_tokens - 1, r->n_tokens);
    size_t bytes = KV_BLOCK_TOKENS * sizeof *q->tokens;
    while (n + KV_BLOCK_TOKENS <= most && memcmp(q->tokens + n, r->tokens + n, bytes) == 0)
        n += KV_BLOCK_TOKENS;
    while (n < most && q->tokens[n] == r->tokens[n])
        n++;
    return n;
}

/* The running sequence that will give q the longest prefix beyond what is cached: at least a whole
 * block more, then all that is common. */
static void find_leader(struct scheduler *s, struct sequence *q)
{
    uint32_t best = cached_blocks(s, q) * KV_BLOCK_TOKENS + KV_BLOCK_TOKENS - 1;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *r = s->running[i];
        uint32_t n = common_tokens(q, r), whole = n - n % KV_BLOCK_TOKENS;
        if (n > best && whole > r->n_computed && r->cache_entry != PREFIX_NONE) {
            best = n;
            q->leader = r;
            q->n_awaited = n;
        }
    }
    s->counters.prefix_waits += q->leader != NULL;
}

/* Of one that follows nobody, or nobody any more. */
static bool waits_for_prefix(struct scheduler *s, struct sequence *q)
{
    if (!s->cache || s->config.is_static)
        return false;
    q->leader = NULL;
    find_leader(s, q);
    return q->leader != NULL;
}

/* Room. */

/* Blocks that the running ones still need for the tokens they have, and one more each, so that a
 * fresh admission does not at once force a preemption. */
static uint64_t reserved_blocks(const struct scheduler *s)
{
    uint64_t n = s->n_running;
    for (uint32_t i = 0; i < s->n_running; i++) {
        uint32_t need = s->running[i]->n_tokens / KV_BLOCK_TOKENS + 1;
        n += need > s->running[i]->n_blocks ? need - s->running[i]->n_blocks : 0;
    }
    return n;
}

static bool fits(const struct scheduler *s, const struct sequence *q, uint64_t more)
{
    uint64_t need = q->n_tokens / KV_BLOCK_TOKENS + 1 - q->n_blocks;
    uint64_t have = kv_pool_free_count(s->pool) + kv_pool_cached_only(s->pool) + more;
    return have >= need + reserved_blocks(s);
}

/* Whether q could start if all below it were put out (not sure to: blocks may be shared with
 * others): nobody loses his place for nothing. */
static bool could_make_room(const struct scheduler *s, const struct sequence *q, struct mono now)
{
    uint32_t n_below = 0;
    uint64_t theirs = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct sequence *r = s->running[i];
        uint32_t need = r->n_tokens / KV_BLOCK_TOKENS + 1;
        if (sched_level(s, r, now) >= q->request.priority)
            continue;
        n_below++; /* what it holds, and what is reserved for it */
        theirs += (need > r->n_blocks ? need : r->n_blocks) + 1;
    }
    return s->n_running - n_below < s->config.max_running && fits(s, q, theirs);
}

/* Only a client's own priority puts others out; age protects them from it. */
static void preempt_for(struct scheduler *s, const struct sequence *q, struct mono now)
{
    uint32_t victim = s->n_running;
    int64_t least = q->request.priority;
    for (uint32_t i = s->n_running; i-- > 0;) {
        int64_t level = sched_level(s, s->running[i], now);
        if (level < least) {
            least = level;
            victim = i;
        }
    }
    s->counters.priority_preemptions++;
    sched_preempt(s, victim);
}

static bool make_room(struct scheduler *s, const struct sequence *q, struct mono now)
{
    while (s->n_running >= s->config.max_running || !fits(s, q, 0)) {
        if (!could_make_room(s, q, now))
            return false;
        preempt_for(s, q, now);
    }
    return true;
}

/* Tail: tokens of q past the last whole block that are computed in somebody's block. */
struct tail {
    uint32_t n, block;
    uint32_t entry; /* of the cache, or PREFIX_NONE: a running sequence is writing the block */
};

static struct tail find_cached_tail(const struct scheduler *s, const struct sequence *q,
                                    uint32_t most)
{
    struct tail t = {.entry = PREFIX_NONE};
    t.n =
        prefix_cache_find_tail(s->cache, q->cache_entry, q->tokens + q->n_computed, most, &t.entry);
    if (t.n)
        t.block = prefix_cache_block(s->cache, t.entry);
    return t;
}

static struct tail find_tail(const struct scheduler *s, const struct sequence *q)
{
    uint32_t from = q->n_computed, most = min_u32(q->n_tokens - 1 - from, KV_BLOCK_TOKENS - 1);
    struct tail best = find_cached_tail(s, q, most);
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct sequence *r = s->running[i];
        if (r->n_in_cache != q->n_blocks || r->cache_entry != q->cache_entry ||
            r->n_computed <= from)
            continue;
        uint32_t n = 0, there = min_u32(most, r->n_computed - from);
        while (n < there && r->tokens[from + n] == q->tokens[from + n])
            n++;
        if (n > best.n)
            best = (struct tail){n, r->blocks[r->n_in_cache], PREFIX_NONE};
    }
    return best;
}

/* A copy of block `from`, made before the next step computes anything; `from` may go meanwhile. */
static bool copy_block(struct scheduler *s, uint32_t from, uint32_t *to)
{
    if (s->n_copies == s->cap_running)
        return false;
    kv_pool_share(s->pool, from); /* not evicted for its own copy */
    bool is_taken = sched_take_block(s, to);
    kv_pool_release(s->pool, from);
    if (!is_taken)
        return false;
    s->copy_from[s->n_copies] = from;
    s->copy_to[s->n_copies++] = *to;
    return true;
}

/* A part that q goes on from, as the end of an answer is when its conversation continues, it takes
 * over; of what others use it takes a copy. */
static void take_tail(struct scheduler *s, struct sequence *q)
{
    struct tail t = find_tail(s, q);
    uint32_t *block = &q->blocks[q->n_blocks];
    if (t.n == 0)
        return;
    if (t.entry != PREFIX_NONE)
        prefix_cache_touch(s->cache, t.entry);
    if (t.entry == PREFIX_NONE || !prefix_cache_take_part(s->cache, t.entry, t.n, block)) {
        if (!copy_block(s, t.block, block))
            return;
        s->counters.copied_blocks++;
        s->counters.copied_tokens += t.n;
    }
    q->n_blocks++;
    q->n_computed += t.n;
}

static void start(struct scheduler *s, struct sequence *q, struct mono now)
{
    sched_take_waiting(s, q);
    if (s->cache)
        take_tail(s, q);
    q->state = SEQ_RUNNING;
    s->planned[s->n_running] = 0;
    s->running[s->n_running++] = q;
    if (!q->started) {
        q->started = true;
        q->start = now;
        q->n_cached = q->n_computed;
    }
    if (q->n_charged < q->n_computed) /* found, not computed */
        q->n_charged = q->n_computed;
    s->counters.query_tokens += q->n_tokens;
    s->counters.hit_tokens += q->n_computed;
}

/* Prompts under way that go before `next` could use the step, less the oldest, which may be a long
 * one. */
static bool is_step_full(const struct scheduler *s, uint32_t room, const struct sequence *next)
{
    uint64_t left = 0;
    bool is_oldest = true;
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct sequence *q = s->running[i];
        if (s->planned[i] || !seq_is_prompt(q))
            continue;
        if (!is_oldest && q->request.priority >= next->request.priority)
            left += seq_n_left(q);
        is_oldest = false;
    }
    return left >= room;
}

void sched_admit(struct scheduler *s, uint32_t room, struct mono now)
{
    if (s->config.is_static && s->n_running)
        return;
    if (s->config.is_static)
        room = UINT32_MAX;
    struct sequence *q;
    while ((q = next_candidate(s, now)) && !is_step_full(s, room, q)) {
        q->tried = s->n_plans;
        if (waits_for_prefix(s, q))
            continue;
        match_prefix(s, q);
        if (!make_room(s, q, now)) {
            sched_release_blocks(s, q);
            return;
        }
        start(s, q, now);
    }
}
