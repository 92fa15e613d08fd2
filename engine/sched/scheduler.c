/* The lists: who waits, who runs, and the ways between them. A waiting sequence holds no block; the
 * leader of a waiting sequence is running. */
#include "engine/sched/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool alloc_arrays(struct scheduler *s)
{
    uint32_t n_tok = s->config.max_batch_tokens, n_seq = s->cap_running;
    uint32_t n_row = gen_max_rows(n_seq, s->config.draft_tokens);
    s->running = calloc(n_seq, sizeof *s->running);
    s->planned = calloc(n_seq, sizeof *s->planned);
    s->token = calloc(n_tok, sizeof *s->token);
    s->position = calloc(n_tok, sizeof *s->position);
    s->seq = calloc(n_tok, sizeof *s->seq);
    s->row_token = calloc(n_row, sizeof *s->row_token);
    s->tables = calloc(n_seq, sizeof *s->tables);
    s->row_seq = calloc(n_row, sizeof *s->row_seq);
    s->copy_from = calloc(n_seq, sizeof *s->copy_from);
    s->copy_to = calloc(n_seq, sizeof *s->copy_to);
    return s->running && s->planned && s->token && s->position && s->seq && s->row_token &&
           s->tables && s->row_seq && s->copy_from && s->copy_to;
}

int sched_open(struct scheduler **out, const struct sched_config *c, struct err *e)
{
    *out = NULL;
    if (c->max_running == 0 || c->aging_us == 0 || c->prefill_chunk == 0 ||
        c->max_batch_tokens < c->max_running)
        return err_set(e, ERR_INVALID,
                       "scheduler: max_batch_tokens %u must be at least max_running %u, "
                       "prefill_chunk %u and aging_us at least 1",
                       c->max_batch_tokens, c->max_running, c->prefill_chunk);
    struct scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "scheduler");
    s->config = *c;
    s->cap_running = c->max_running;
    s->pace.target_us = c->max_gap_us;
    share_init(&s->share, c->salt);
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
    free(s->copy_from);
    free(s->copy_to);
    free(s);
}

/* By arrival: what was preempted comes back to its old place. */
static void insert_waiting(struct scheduler *s, struct sequence *q)
{
    struct sequence **at = &s->waiting;
    if (s->waiting && s->waiting_last->submitted.us <= q->submitted.us)
        at = &s->waiting_last->next;
    while (*at && (*at)->submitted.us <= q->submitted.us)
        at = &(*at)->next;
    q->next = *at;
    *at = q;
    if (!q->next)
        s->waiting_last = q;
    q->state = SEQ_WAITING;
    s->n_waiting++;
}

void sched_take_waiting(struct scheduler *s, struct sequence *q)
{
    struct sequence **at = &s->waiting, *before = NULL;
    while (*at != q) {
        before = *at;
        at = &before->next;
    }
    *at = q->next;
    if (!q->next)
        s->waiting_last = before;
    q->next = NULL;
    q->leader = NULL;
    s->n_waiting--;
}

void sched_add(struct scheduler *s, struct sequence *q)
{
    q->user = share_join(&s->share, q->request.user);
    insert_waiting(s, q);
}

/* The block it was in the middle of, for whoever goes on from there. */
static void leave_part(struct scheduler *s, const struct sequence *q)
{
    uint32_t n = q->n_computed % KV_BLOCK_TOKENS, i = q->n_computed / KV_BLOCK_TOKENS;
    if (n && i == q->n_in_cache && i < q->n_blocks && q->cache_entry != PREFIX_NONE)
        prefix_cache_add_part(s->cache, q->cache_entry, q->tokens + i * KV_BLOCK_TOKENS, n,
                              q->blocks[i]);
}

void sched_release_blocks(struct scheduler *s, struct sequence *q)
{
    if (s->cache)
        leave_part(s, q);
    if (s->cache && q->n_in_cache && q->cache_entry != PREFIX_NONE)
        prefix_cache_touch(s->cache, q->cache_entry); /* used until now */
    /* Last first, so that the pool hands the beginnings out again last. */
    while (q->n_blocks)
        kv_pool_release(s->pool, q->blocks[--q->n_blocks]);
    q->n_computed = q->n_in_cache = q->draft.n_open = 0;
    q->cache_entry = PREFIX_ROOT;
}

static void drop_running(struct scheduler *s, uint32_t i)
{
    uint32_t after = s->n_running - i - 1;
    for (struct sequence *q = s->waiting; q; q = q->next)
        if (q->leader == s->running[i])
            q->leader = NULL;
    memmove(&s->running[i], &s->running[i + 1], after * sizeof *s->running);
    memmove(&s->planned[i], &s->planned[i + 1], after * sizeof *s->planned);
    s->n_running--;
}

void sched_remove(struct scheduler *s, struct sequence *q)
{
    if (q->state == SEQ_WAITING) {
        sched_take_waiting(s, q);
    } else if (q->state == SEQ_RUNNING) {
        uint32_t i = 0;
        while (s->running[i] != q)
            i++;
        drop_running(s, i);
    }
    sched_release_blocks(s, q);
    share_leave(&s->share, q->user);
    q->state = SEQ_ENDED;
}

void sched_finish(struct scheduler *s, struct sequence *q)
{
    (void)s; /* without assert */
    assert(s->config.is_static && q->state == SEQ_RUNNING);
    q->is_over = true;
    q->n_computed = q->n_tokens - 1;
}

bool sched_batch_is_over(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (!s->running[i]->is_over)
            return false;
    return s->n_running > 0;
}

void sched_preempt(struct scheduler *s, uint32_t i)
{
    struct sequence *q = s->running[i];
    drop_running(s, i);
    sched_release_blocks(s, q);
    q->n_preempted++;
    s->counters.preemptions++;
    insert_waiting(s, q);
}

void seq_expect(struct sequence *q, uint32_t row)
{
    if (q->n_tokens + 1 < q->n_capacity)
        seq_append(q, -1 - (int32_t)row);
}

void seq_forget_expected(struct sequence *q)
{
    if (seq_n_output(q) && q->tokens[q->n_tokens - 1] < 0)
        q->n_tokens--;
}

void seq_append(struct sequence *q, int32_t token)
{
    seq_forget_expected(q);
    assert(q->n_tokens < q->n_capacity);
    if (q->draft.n_open) {
        bool is_right = q->tokens[q->n_tokens] == token;
        q->n_computed += is_right;
        draft_judge(&q->draft, is_right);
    }
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
    return kv_pool_total(s->pool) - kv_pool_free_count(s->pool) - kv_pool_cached_only(s->pool);
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
