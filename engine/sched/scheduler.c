/* The plan of a step, in this order: decodes, running prompts, new admissions. `planned` counts,
 * per running sequence, the tokens of this step; sched_computed turns them into progress. */
#include "engine/sched/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct scheduler {
    struct sched_config config;
    struct kv_pool *pool;
    struct prefix_cache *cache; /* NULL when off */
    struct sequence *waiting;   /* by priority, then arrival */
    uint32_t n_waiting, n_running, cap_running;
    struct sequence **running; /* [cap_running] in order of admission */
    uint32_t *planned;         /* [cap_running] */
    struct sched_counters counters;
    /* the plan's arrays */
    int32_t *token;
    uint32_t *position, *seq, *row_token;
    const uint32_t **tables;
    struct sequence **row_seq;
    struct sched_plan plan;
};

static bool alloc_arrays(struct scheduler *s)
{
    uint32_t n_tok = s->config.max_batch_tokens, n_seq = s->cap_running;
    s->running = calloc(n_seq, sizeof *s->running);
    s->planned = calloc(n_seq, sizeof *s->planned);
    s->token = calloc(n_tok, sizeof *s->token);
    s->position = calloc(n_tok, sizeof *s->position);
    s->seq = calloc(n_tok, sizeof *s->seq);
    s->row_token = calloc(n_seq, sizeof *s->row_token);
    s->tables = calloc(n_seq, sizeof *s->tables);
    s->row_seq = calloc(n_seq, sizeof *s->row_seq);
    return s->running && s->planned && s->token && s->position && s->seq && s->row_token &&
           s->tables && s->row_seq;
}

int sched_open(struct scheduler **out, const struct sched_config *c, struct err *e)
{
    *out = NULL;
    if (c->max_running == 0 || c->prefill_chunk == 0 || c->max_batch_tokens < c->max_running)
        return err_set(e, ERR_INVALID,
                       "scheduler: max_batch_tokens %u must be at least max_running %u, "
                       "prefill_chunk %u at least 1",
                       c->max_batch_tokens, c->max_running, c->prefill_chunk);
    struct scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "scheduler");
    s->config = *c;
    s->cap_running = c->max_running;
    int rc = alloc_arrays(s) ? ERR_OK : err_set(e, ERR_NOMEM, "scheduler of %u", c->max_running);
    if (rc == ERR_OK)
        rc = kv_pool_open(&s->pool, c->n_kv_blocks, e);
    if (rc == ERR_OK && c->prefix_cache)
        rc = prefix_cache_open(&s->cache, s->pool, c->salt, e);
    if (rc != ERR_OK)
        sched_close(s);
    else
        *out = s;
    return rc;
}

void sched_close(struct scheduler *s)
{
    if (!s)
        return;
    prefix_cache_close(s->cache);
    kv_pool_close(s->pool);
    free(s->running);
    free(s->planned);
    free(s->token);
    free(s->position);
    free(s->seq);
    free(s->row_token);
    free(s->tables);
    free(s->row_seq);
    free(s);
}

/* Before the first of lower priority; at the very front of its priority when preempted. */
static void insert_waiting(struct scheduler *s, struct sequence *q, bool to_front)
{
    struct sequence **at = &s->waiting;
    while (*at && ((*at)->request.priority > q->request.priority ||
                   (!to_front && (*at)->request.priority == q->request.priority)))
        at = &(*at)->next;
    q->next = *at;
    *at = q;
    q->state = SEQ_WAITING;
    s->n_waiting++;
}

void sched_add(struct scheduler *s, struct sequence *q)
{
    insert_waiting(s, q, false);
}

static void release_blocks(struct scheduler *s, struct sequence *q)
{
    /* Last first, so that the pool hands the beginnings out again last. */
    while (q->n_blocks)
        kv_pool_release(s->pool, q->blocks[--q->n_blocks]);
    q->n_computed = q->n_in_cache = 0;
    q->cache_entry = PREFIX_ROOT;
}

static void drop_running(struct scheduler *s, uint32_t i)
{
    uint32_t after = s->n_running - i - 1;
    memmove(&s->running[i], &s->running[i + 1], after * sizeof *s->running);
    memmove(&s->planned[i], &s->planned[i + 1], after * sizeof *s->planned);
    s->n_running--;
}

void sched_remove(struct scheduler *s, struct sequence *q)
{
    if (q->state == SEQ_WAITING) {
        struct sequence **at = &s->waiting;
        while (*at != q)
            at = &(*at)->next;
        *at = q->next;
        s->n_waiting--;
    } else if (q->state == SEQ_RUNNING) {
        uint32_t i = 0;
        while (s->running[i] != q)
            i++;
        drop_running(s, i);
    }
    release_blocks(s, q);
    q->state = SEQ_ENDED;
}

static bool take_block(struct scheduler *s, uint32_t *block)
{
    if (kv_pool_take(s->pool, block))
        return true;
    if (!s->cache || !prefix_cache_evict(s->cache))
        return false;
    s->counters.evictions++;
    return kv_pool_take(s->pool, block);
}

/* Whom to preempt so that running[keep] can go on: lowest priority, then youngest; possibly keep
 * itself. Sequences already planned in this step may go too: their tokens leave the plan. */
static uint32_t choose_victim(const struct scheduler *s)
{
    uint32_t victim = s->n_running - 1;
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i]->request.priority < s->running[victim]->request.priority)
            victim = i;
    return victim;
}

static void preempt(struct scheduler *s, uint32_t i)
{
    struct sequence *q = s->running[i];
    drop_running(s, i);
    release_blocks(s, q);
    q->n_preempted++;
    s->counters.preemptions++;
    insert_waiting(s, q, true);
}

/* Blocks for the positions up to `until`; true when it has them. May fail half-way: what was taken
 * stays with the sequence. */
static bool grow(struct scheduler *s, struct sequence *q, uint32_t until)
{
    uint32_t need = (until + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    while (q->n_blocks < need)
        if (!take_block(s, &q->blocks[q->n_blocks]))
            return false;
        else
            q->n_blocks++;
    return true;
}

/* Plans n tokens for q, preempting others until its blocks are there. Returns false when q itself
 * had to go. */
static bool plan_running(struct scheduler *s, struct sequence *q, uint32_t n)
{
    while (!grow(s, q, q->n_computed + n)) {
        uint32_t victim = choose_victim(s);
        bool is_self = s->running[victim] == q;
        preempt(s, victim);
        if (is_self)
            return false;
    }
    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i] == q)
            s->planned[i] = n;
    return true;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t planned_total(const struct scheduler *s)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        sum += s->planned[i];
    return sum;
}

/* Preemption moves entries of running[], so each pass looks for the next unplanned sequence. */
static struct sequence *next_unplanned(const struct scheduler *s, bool decodes)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct sequence *q = s->running[i];
        if (s->planned[i] == 0 && (q->n_tokens - q->n_computed == 1) == decodes)
            return s->running[i];
    }
    return NULL;
}

static void plan_decodes(struct scheduler *s)
{
    for (struct sequence *q; (q = next_unplanned(s, true));)
        (void)plan_running(s, q, 1);
}

/* What of the step's prompt budget is left. */
static uint32_t prompt_room(const struct scheduler *s)
{
    uint32_t prompt = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i]->n_tokens - s->running[i]->n_computed > 1)
            prompt += s->planned[i];
    uint32_t all = s->config.max_batch_tokens - planned_total(s);
    return prompt < s->config.prefill_chunk ? min_u32(s->config.prefill_chunk - prompt, all) : 0;
}

static void plan_prompts(struct scheduler *s)
{
    for (struct sequence *q; prompt_room(s) && (q = next_unplanned(s, false));)
        (void)plan_running(s, q, min_u32(q->n_tokens - q->n_computed, prompt_room(s)));
}

/* Shares the blocks of the longest cached prefix. The last token is always computed: its logits are
 * wanted. */
static void match_prefix(struct scheduler *s, struct sequence *q)
{
    if (!s->cache)
        return;
    uint32_t usable = (q->n_tokens - 1) / KV_BLOCK_TOKENS;
    while (q->n_blocks < usable) {
        const int32_t *tokens = q->tokens + q->n_blocks * KV_BLOCK_TOKENS;
        uint32_t entry = prefix_cache_find(s->cache, q->cache_entry, tokens);
        if (entry == PREFIX_NONE)
            break;
        uint32_t block = prefix_cache_block(s->cache, entry);
        kv_pool_share(s->pool, block);
        q->blocks[q->n_blocks++] = block;
        q->cache_entry = entry;
    }
    q->n_in_cache = q->n_blocks;
    q->n_computed = q->n_blocks * KV_BLOCK_TOKENS;
}

/* Admission asks for the whole prompt's blocks plus one for each running sequence's next growth, so
 * that a fresh admission does not at once force a preemption. */
static bool fits(const struct scheduler *s, const struct sequence *q)
{
    uint32_t need = q->n_tokens / KV_BLOCK_TOKENS + 1 - q->n_blocks;
    uint32_t have = kv_pool_free_count(s->pool);
    uint32_t reserve = s->n_running ? s->n_running : 0;
    if (have >= need + reserve)
        return true;
    if (s->cache)
        have += prefix_cache_evictable(s->cache);
    return have >= need + reserve;
}

static void count_prefix(struct scheduler *s, struct sequence *q, struct mono now)
{
    if (!q->started) {
        q->started = true;
        q->start = now;
        q->n_cached = q->n_computed;
    }
    s->counters.query_tokens += q->n_tokens;
    s->counters.hit_tokens += q->n_computed;
}

static void admit(struct scheduler *s, struct mono now)
{
    while (s->waiting && s->n_running < s->config.max_running && prompt_room(s)) {
        struct sequence *q = s->waiting;
        match_prefix(s, q);
        if (!fits(s, q)) {
            release_blocks(s, q);
            return; /* in order: nobody overtakes */
        }
        s->waiting = q->next;
        s->n_waiting--;
        q->next = NULL;
        q->state = SEQ_RUNNING;
        s->planned[s->n_running] = 0;
        s->running[s->n_running++] = q;
        count_prefix(s, q, now);
        if (!plan_running(s, q, min_u32(q->n_tokens - q->n_computed, prompt_room(s))))
            return;
    }
}

static void fill_plan(struct scheduler *s)
{
    uint32_t n_tok = 0, n_row = 0, n_decode = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *q = s->running[i];
        s->tables[i] = q->blocks;
        n_decode += s->planned[i] == 1 && q->n_tokens - q->n_computed == 1;
        for (uint32_t k = 0; k < s->planned[i]; k++, n_tok++) {
            s->token[n_tok] = q->tokens[q->n_computed + k];
            s->position[n_tok] = q->n_computed + k;
            s->seq[n_tok] = i;
        }
        if (s->planned[i] && q->n_computed + s->planned[i] == q->n_tokens) {
            s->row_seq[n_row] = q;
            s->row_token[n_row++] = n_tok - 1;
        }
    }
    s->plan = (struct sched_plan){.batch = {.n_tok = n_tok,
                                            .token = s->token,
                                            .position = s->position,
                                            .seq = s->seq,
                                            .block_table = s->tables,
                                            .n_row = n_row,
                                            .row_token = s->row_token},
                                  .row_seq = s->row_seq,
                                  .n_decode = n_decode};
}

void sched_plan(struct scheduler *s, struct mono now, struct sched_plan *out)
{
    memset(s->planned, 0, s->cap_running * sizeof *s->planned);
    plan_decodes(s);
    plan_prompts(s);
    admit(s, now);
    fill_plan(s);
    *out = s->plan;
}

/* When somebody else's equal block is already there, ours is given back and theirs used from now
 * on: the same tokens give the same bits, and a chain in the cache is held from its root. */
static void cache_full_blocks(struct scheduler *s, struct sequence *q)
{
    while (q->cache_entry != PREFIX_NONE && q->n_in_cache < q->n_computed / KV_BLOCK_TOKENS) {
        uint32_t *block = &q->blocks[q->n_in_cache];
        const int32_t *tokens = q->tokens + q->n_in_cache * KV_BLOCK_TOKENS;
        q->cache_entry = prefix_cache_add(s->cache, q->cache_entry, tokens, *block);
        q->n_in_cache++;
        if (q->cache_entry == PREFIX_NONE)
            return;
        uint32_t cached = prefix_cache_block(s->cache, q->cache_entry);
        if (cached != *block) {
            kv_pool_share(s->pool, cached);
            kv_pool_release(s->pool, *block);
            *block = cached;
        }
    }
}

void sched_computed(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *q = s->running[i];
        q->n_computed += s->planned[i];
        s->planned[i] = 0;
        if (s->cache)
            cache_full_blocks(s, q);
    }
}

void seq_append(struct sequence *q, int32_t token)
{
    assert(q->n_tokens < q->n_capacity);
    q->tokens[q->n_tokens++] = token;
}

void sched_set_knobs(struct scheduler *s, uint32_t max_running, uint32_t prefill_chunk)
{
    if (max_running)
        s->config.max_running = min_u32(max_running, s->cap_running);
    if (prefill_chunk)
        s->config.prefill_chunk = min_u32(prefill_chunk, s->config.max_batch_tokens);
}

uint32_t sched_n_running(const struct scheduler *s)
{
    return s->n_running;
}

uint32_t sched_n_waiting(const struct scheduler *s)
{
    return s->n_waiting;
}

struct sequence *sched_running_at(const struct scheduler *s, uint32_t i)
{
    return s->running[i];
}

struct sequence *sched_first_waiting(const struct scheduler *s)
{
    return s->waiting;
}

const struct sched_counters *sched_get_counters(const struct scheduler *s)
{
    return &s->counters;
}

const struct kv_pool *sched_pool(const struct scheduler *s)
{
    return s->pool;
}

uint32_t sched_blocks_in_use(const struct scheduler *s)
{
    uint32_t held = kv_pool_total(s->pool) - kv_pool_free_count(s->pool);
    return s->cache ? held - prefix_cache_evictable(s->cache) : held;
}

uint32_t sched_blocks_cached(const struct scheduler *s)
{
    return s->cache ? prefix_cache_count(s->cache) : 0;
}

void sched_flush_cache(struct scheduler *s)
{
    if (s->cache)
        prefix_cache_clear(s->cache);
}
