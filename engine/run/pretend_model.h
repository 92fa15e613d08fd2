/* engine/run/pretend_model.h - a model that is a hash, for tests of the generator.
 *
 * Included by *_test.c files only: it defines the functions of model.h, so that the linker
 * takes these and not the real ones. A KV slot holds a hash of all tokens up to its position; the
 * logits of a position are a function of that hash. A wrong block table, a stale shared block or a
 * lost prefix therefore changes the tokens, as in a real model but at no cost. */
#ifndef ENGINE_RUN_PRETEND_MODEL_H
#define ENGINE_RUN_PRETEND_MODEL_H

#include "engine/run/pretend_step.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct model {
    struct model_info info;
    _Atomic int fail_steps; /* this many steps give ERR_DEVICE */
    _Atomic int fail_after; /* the step that many later does; 0: none */
    _Atomic long step_ns;   /* each step takes this long */
    uint32_t period;        /* 0, or most text repeats after so many tokens (not with can_draw) */
    _Atomic int room;       /* steps that may still end; below zero: any number */
    /* Draws of its own, in steps that are computed when they are waited for. */
    bool can_draw;
    struct pretended_step step[2];
    int32_t ids[PRETEND_TOKENS]; /* drawn by the last step computed */
    uint32_t n_started, n_finished;
    char turns[2 * PRETEND_TURNS]; /* 's' a step started, 'f' one is waited for; the first ones */
    uint32_t n_turns;
    uint64_t slot[PRETEND_BLOCKS][KV_BLOCK_TOKENS];
};

static struct model *pretend_open(void)
{
    struct model *m = calloc(1, sizeof *m);
    m->room = -1;
    m->info = (struct model_info){.n_vocab = PRETEND_VOCAB, .n_ctx_train = 1024};
    return m;
}

const struct model_info *model_get_info(const struct model *m)
{
    return &m->info;
}

uint32_t model_n_threads(const struct model *m)
{
    (void)m;
    return 2;
}

/* Two samplers in turn, on one thread. */
void model_each(struct model *m, uint32_t n, void (*fn)(void *arg, uint32_t i, uint32_t thread),
                void *arg)
{
    (void)m;
    for (uint32_t i = 0; i < n; i++)
        fn(arg, i, i % 2);
}

bool model_can_draw(const struct model *m)
{
    return m->can_draw;
}

uint64_t model_comm_us(const struct model *m)
{
    (void)m;
    return 0;
}

static int pretend_time(struct model *m, struct err *e)
{
    do
        nanosleep(&(struct timespec){.tv_nsec = m->step_ns}, NULL);
    while (m->room == 0);
    int room = m->room;
    while (room > 0 && !atomic_compare_exchange_weak(&m->room, &room, room - 1))
        ;
    bool is_due = m->fail_after && --m->fail_after == 0;
    if (m->fail_steps == 0 && !is_due)
        return ERR_OK;
    m->fail_steps -= !is_due;
    return err_set(e, ERR_DEVICE, "pretended device failure");
}

int model_forward(struct model *m, const struct model_batch *b, float *logits, struct err *e)
{
    int rc = pretend_time(m, e);
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; i < b->n_copy; i++)
        memmove(m->slot[b->copy_to[i]], m->slot[b->copy_from[i]], sizeof *m->slot);
    uint32_t row = 0;
    for (uint32_t i = 0; i < b->n_tok; i++) {
        const uint32_t *table = b->block_table[b->seq[i]];
        uint32_t p = b->position[i], q = p - 1;
        uint64_t before = p ? m->slot[table[q / KV_BLOCK_TOKENS]][q % KV_BLOCK_TOKENS] : 0;
        uint64_t h = hash64(&b->token[i], sizeof b->token[i], before + 1);
        m->slot[table[p / KV_BLOCK_TOKENS]][p % KV_BLOCK_TOKENS] = h;
        if (row == b->n_row || b->row_token[row] != i)
            continue;
        float *of_row = logits + (size_t)row++ * PRETEND_VOCAB;
        pretend_logits(h, b->token[i], of_row);
        if (m->period && h % 8)
            of_row[10 + p % m->period] += 12;
    }
    return row == b->n_row ? ERR_OK : err_set(e, ERR_BUG, "rows are not in order of tokens");
}

static void put_turn(struct model *m, char turn)
{
    if (m->n_turns + 1 < sizeof m->turns)
        m->turns[m->n_turns++] = turn;
}

bool model_can_overlap(const struct model *m)
{
    return m->can_draw;
}

int model_start(struct model *m, const struct model_batch *b, const struct kern_draw *draw,
                struct kern_drawn *drawn, float *logits, struct err *e)
{
    if (m->n_started - m->n_finished == 2 || b->n_tok > PRETEND_TOKENS)
        return err_set(e, ERR_BUG, "a third step, or a large one");
    struct pretended_step *s = &m->step[m->n_started++ % 2];
    *s = (struct pretended_step){.n_tok = b->n_tok,
                                 .n_row = b->n_row,
                                 .n_copy = b->n_copy,
                                 .drawn = drawn,
                                 .logits = logits};
    copy_step(s, b);
    for (uint32_t r = 0; r < b->n_row; r++) {
        s->wanted[r] = hash_wanted(&draw[r], &s->last[r]);
        s->on_host[r] = draw[r].on_host;
        s->n_top[r] = draw[r].n_top;
    }
    put_turn(m, 's');
    return ERR_OK;
}

int model_finish(struct model *m, struct err *e)
{
    int32_t before[PRETEND_TOKENS];
    struct pretended_step *s = &m->step[m->n_finished % 2];
    memcpy(before, m->ids, sizeof before);
    put_turn(m, 'f');
    if (m->n_started == m->n_finished++)
        return err_set(e, ERR_BUG, "no step is under way");
    int rc = pretend_time(m, e);
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; i < s->n_copy; i++)
        memmove(m->slot[s->copy_to[i]], m->slot[s->copy_from[i]], sizeof *m->slot);
    for (uint32_t i = 0, r = 0; i < s->n_tok; i++) {
        uint32_t p = s->position[i];
        int32_t token = known(before, s->token[i]);
        uint64_t left = p ? m->slot[s->before[i]][(p - 1) % KV_BLOCK_TOKENS] : 0;
        uint64_t h = hash64(&token, sizeof token, left + 1);
        m->slot[s->block[i]][p % KV_BLOCK_TOKENS] = h;
        if (r == s->n_row || s->row_token[r] != i)
            continue;
        s->drawn[r] = draw_pretended(h, s->wanted[r], known(before, s->last[r]), token);
        s->drawn[r].n_top = s->n_top[r];
        m->ids[r] = s->drawn[r].token;
        if (s->on_host[r]) {
            pretend_logits(h, token, s->logits + (size_t)r * PRETEND_VOCAB);
            s->drawn[r].token = m->ids[r] = -1;
        }
        r++;
    }
    return ERR_OK;
}

#endif
