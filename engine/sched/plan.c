/* The plan of a step, in this order: decodes, admissions, prompts, drafts. `planned` counts, per
 * running sequence, the tokens of this step; sched_computed turns them into progress. Prompt tokens
 * are limited by what the pace allows, so that no prompt makes a running stream wait. */
#include "engine/sched/state.h"

#include <string.h>

enum { FEW_DECODES = 2 }; /* with more, a step grows by what a wrong draft of a few tokens adds */

bool sched_take_block(struct scheduler *s, uint32_t *block)
{
    if (kv_pool_take(s->pool, block))
        return true;
    if (!s->cache || !prefix_cache_evict(s->cache))
        return false;
    s->counters.evictions++;
    return kv_pool_take(s->pool, block);
}

/* Whom to preempt when blocks run out: lowest priority, then youngest; possibly the one that needs
 * them. Sequences already planned in this step may go too: their tokens leave the plan. */
static uint32_t choose_victim(const struct scheduler *s)
{
    uint32_t victim = s->n_running - 1;
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i]->request.priority < s->running[victim]->request.priority)
            victim = i;
    return victim;
}

/* Blocks for the positions up to `until`; true when it has them. May fail half-way: what was taken
 * stays with the sequence. */
static bool grow(struct scheduler *s, struct sequence *q, uint32_t until)
{
    uint32_t need = (until + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    while (q->n_blocks < need)
        if (!sched_take_block(s, &q->blocks[q->n_blocks]))
            return false;
        else
            q->n_blocks++;
    return true;
}

/* Plans n tokens for q, preempting others until its blocks are there. */
static void plan_running(struct scheduler *s, struct sequence *q, uint32_t n)
{
    while (!grow(s, q, q->n_computed + n)) {
        uint32_t victim = choose_victim(s);
        bool is_self = s->running[victim] == q;
        sched_preempt(s, victim);
        if (is_self)
            return;
    }
    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i] == q)
            s->planned[i] = n;
}

/* Preemption moves entries of running[], so each pass looks for the next unplanned sequence. */
static void plan_decodes(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct sequence *q = s->running[i];
        if (s->planned[i] || !seq_is_decoding(q)) {
            i++;
            continue;
        }
        plan_running(s, q, 1);
        i = 0;
    }
}

/* What of the step's prompt budget is left. */
static uint32_t prompt_room(const struct scheduler *s)
{
    uint32_t prompt = 0, all = 0, n_decode = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        bool decodes = seq_is_decoding(s->running[i]);
        all += s->planned[i];
        prompt += decodes ? 0 : s->planned[i];
        n_decode += decodes;
    }
    uint32_t most = pace_prompt_tokens(&s->pace, n_decode, s->config.prefill_chunk);
    return prompt < most ? min_u32(most - prompt, s->config.max_batch_tokens - all) : 0;
}

static bool goes_before(const struct sequence *a, const struct sequence *b)
{
    if (a->request.priority != b->request.priority)
        return a->request.priority > b->request.priority;
    if (a->n_followers != b->n_followers)
        return a->n_followers > b->n_followers;
    return seq_n_left(a) < seq_n_left(b);
}

/* By priority, then who helps most others, then who has least left: short prompts do not wait for
 * long ones. */
static struct sequence *next_prompt(const struct scheduler *s)
{
    struct sequence *best = NULL;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *q = s->running[i];
        if (!s->planned[i] && seq_is_prompt(q) && (!best || goes_before(q, best)))
            best = q;
    }
    return best;
}

static uint32_t prompt_tokens_left(const struct scheduler *s, struct sequence **oldest)
{
    uint32_t left = 0;
    *oldest = NULL;
    for (uint32_t i = s->n_running; i-- > 0;) {
        if (s->planned[i] || !seq_is_prompt(s->running[i]))
            continue;
        left += seq_n_left(s->running[i]);
        *oldest = s->running[i];
    }
    return left;
}

/* The oldest prompt gets what it needs, or half of the room when it is long and others want the
 * rest: it never starves, and they never wait for all of it. */
static void plan_prompts(struct scheduler *s)
{
    struct sequence *q;
    uint32_t room = prompt_room(s), left = prompt_tokens_left(s, &q);
    if (!q || room == 0)
        return;
    uint32_t own = seq_n_left(q), others = left - own;
    if (own > room)
        own = others < room / 2 ? room - others : room - room / 2;
    plan_running(s, q, own);
    while ((room = prompt_room(s)) && (q = next_prompt(s)))
        plan_running(s, q, min_u32(seq_n_left(q), room));
}

/* As many of n positions after its own as have blocks, or free ones: nobody is preempted for a
 * guess. */
static uint32_t fit_draft(struct scheduler *s, struct sequence *q, uint32_t n)
{
    while (q->n_blocks * KV_BLOCK_TOKENS < q->n_tokens + n &&
           kv_pool_take(s->pool, &q->blocks[q->n_blocks]))
        q->n_blocks++;
    return min_u32(n, q->n_blocks * KV_BLOCK_TOKENS - q->n_tokens);
}

static uint32_t draft_for(struct scheduler *s, struct sequence *q, uint32_t most, bool only_sure)
{
    uint32_t left = q->n_capacity - q->n_tokens; /* the last token is never computed */
    uint32_t n = left > 1 ? min_u32(most, left - 1) : 0;
    n = fit_draft(s, q, draft_make(&q->draft, q->tokens, q->n_tokens, n, only_sure));
    draft_give(&q->draft, n);
    return n;
}

/* Where few sequences decode and no prompt makes the step long: weights are read once for all
 * tokens, so that a few more cost little. */
static void plan_drafts(struct scheduler *s)
{
    uint32_t n_tok = 0, most = min_u32(s->config.draft_tokens + 1, s->config.max_batch_tokens);
    for (uint32_t i = 0; i < s->n_running; i++) {
        if (s->planned[i] && !seq_is_decoding(s->running[i]))
            return;
        n_tok += s->planned[i];
    }
    bool only_sure = n_tok > FEW_DECODES;
    for (uint32_t i = 0; i < s->n_running && n_tok < most; i++) {
        uint32_t n = s->planned[i] ? draft_for(s, s->running[i], most - n_tok, only_sure) : 0;
        s->planned[i] += n;
        n_tok += n;
    }
}

static void count_followers(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        s->running[i]->n_followers = 0;
    for (const struct sequence *q = s->waiting; q; q = q->next)
        if (seq_is_following(q))
            q->leader->n_followers++;
}

static void put_token(struct scheduler *s, uint32_t *n_tok, int32_t token, uint32_t position,
                      uint32_t seq)
{
    s->token[*n_tok] = token;
    s->position[*n_tok] = position;
    s->seq[*n_tok] = seq;
    (*n_tok)++;
}

static void put_row(struct scheduler *s, uint32_t *n_row, struct sequence *q, uint32_t token)
{
    s->row_seq[*n_row] = q;
    s->row_token[*n_row] = token;
    (*n_row)++;
}

static void fill_plan(struct scheduler *s)
{
    uint32_t n_tok = 0, n_row = 0, n_decode = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *q = s->running[i];
        s->tables[i] = q->blocks;
        n_decode += seq_is_decoding(q) ? s->planned[i] : 0;
        for (uint32_t at = q->n_computed; at < q->n_computed + s->planned[i]; at++) {
            put_token(s, &n_tok, q->tokens[at], at, i);
            if (at + 1 >= q->n_tokens)
                put_row(s, &n_row, q, n_tok - 1);
        }
    }
    s->plan = (struct sched_plan){.batch = {.n_tok = n_tok,
                                            .token = s->token,
                                            .position = s->position,
                                            .seq = s->seq,
                                            .block_table = s->tables,
                                            .n_row = n_row,
                                            .row_token = s->row_token,
                                            .n_copy = s->n_copies,
                                            .copy_from = s->copy_from,
                                            .copy_to = s->copy_to},
                                  .row_seq = s->row_seq,
                                  .n_decode = n_decode,
                                  .n_prompt = n_tok - n_decode};
}

void sched_plan(struct scheduler *s, struct mono now, struct sched_plan *out)
{
    s->n_plans++;
    memset(s->planned, 0, s->cap_running * sizeof *s->planned);
    plan_decodes(s);
    sched_admit(s, prompt_room(s), now);
    plan_decodes(s); /* new ones of which all but the last token is there */
    count_followers(s);
    plan_prompts(s);
    if (s->config.draft_tokens)
        plan_drafts(s);
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

/* The user pays for positions computed for the first time. */
static void charge(struct scheduler *s, struct sequence *q)
{
    uint32_t n_prompt = q->request.n_prompt, from = q->n_charged, to = q->n_computed;
    if (to <= from)
        return;
    uint64_t output = to > n_prompt ? to - (from > n_prompt ? from : n_prompt) : 0;
    share_charge(&s->share, q->user,
                 (to - from - output) * SHARE_PROMPT_COST + output * SHARE_OUTPUT_COST);
    q->n_charged = to;
}

void sched_computed(struct scheduler *s)
{
    s->n_copies = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct sequence *q = s->running[i];
        q->n_computed += s->planned[i] - q->draft.n_open; /* those follow when they are drawn */
        s->counters.draft_tokens += q->draft.n_open;
        draft_age(&q->draft);
        if (q->is_over) /* its slot computes the last token again and again */
            q->n_computed = q->n_tokens - 1;
        else if (s->planned[i])
            charge(s, q);
        s->planned[i] = 0;
        if (s->cache)
            cache_full_blocks(s, q);
    }
}

void sched_failed(struct scheduler *s)
{
    s->n_copies = 0;
    sched_flush_cache(s);
}

void sched_took(struct scheduler *s, uint32_t n_decode, uint32_t n_prompt, uint64_t step_us)
{
    pace_observe(&s->pace, n_decode, n_prompt, step_us);
}
