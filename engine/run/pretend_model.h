/* engine/run/pretend_model.h - a model that is a hash, for tests of the generator.
 *
 * Included by *_test.c files only: it defines the functions of model.h, so that the linker
 * takes these and not the real ones. A KV slot holds a hash of all tokens up to its position; the
 * logits of a position are a function of that hash. A wrong block table, a stale shared block or a
 * lost prefix therefore changes the tokens, as in a real model but at no cost. */
#ifndef ENGINE_RUN_PRETEND_MODEL_H
#define ENGINE_RUN_PRETEND_MODEL_H

#include "common/hash.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PRETEND_VOCAB = 64, PRETEND_BLOCKS = 512, NAN_TOKEN = 63 };

struct model {
    struct model_info info;
    _Atomic int fail_steps; /* this many steps give ERR_DEVICE */
    _Atomic long step_ns;   /* each step takes this long */
    _Atomic int room;       /* steps that may still end; below zero: any number */
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

static void pretend_logits(uint64_t h, int32_t token, float *row)
{
    for (uint32_t i = 0; i < PRETEND_VOCAB; i++) {
        uint64_t x = hash64(&i, sizeof i, h);
        row[i] = token == NAN_TOKEN ? NAN : (float)(x % 1000) * 0.006f - 3;
    }
    if (token != NAN_TOKEN)
        row[NAN_TOKEN] = -1e30f; /* never drawn, only prompts hold it */
}

/* Its draws are the host's. */
bool model_can_draw(const struct model *m)
{
    (void)m;
    return false;
}

int model_draw(struct model *m, const struct model_batch *b, const struct kern_draw *draw,
               struct kern_drawn *drawn, float *logits, struct err *e)
{
    (void)m, (void)b, (void)draw, (void)drawn, (void)logits;
    return err_set(e, ERR_BUG, "a model without draws");
}

uint64_t model_comm_us(const struct model *m)
{
    (void)m;
    return 0;
}

int model_forward(struct model *m, const struct model_batch *b, float *logits, struct err *e)
{
    do
        nanosleep(&(struct timespec){.tv_nsec = m->step_ns}, NULL);
    while (m->room == 0);
    int room = m->room;
    while (room > 0 && !atomic_compare_exchange_weak(&m->room, &room, room - 1))
        ;
    if (m->fail_steps > 0) {
        m->fail_steps--;
        return err_set(e, ERR_DEVICE, "pretended device failure");
    }
    for (uint32_t i = 0; i < b->n_copy; i++)
        memmove(m->slot[b->copy_to[i]], m->slot[b->copy_from[i]], sizeof *m->slot);
    uint32_t row = 0;
    for (uint32_t i = 0; i < b->n_tok; i++) {
        const uint32_t *table = b->block_table[b->seq[i]];
        uint32_t p = b->position[i], q = p - 1;
        uint64_t before = p ? m->slot[table[q / KV_BLOCK_TOKENS]][q % KV_BLOCK_TOKENS] : 0;
        uint64_t h = hash64(&b->token[i], sizeof b->token[i], before + 1);
        m->slot[table[p / KV_BLOCK_TOKENS]][p % KV_BLOCK_TOKENS] = h;
        if (row < b->n_row && b->row_token[row] == i)
            pretend_logits(h, b->token[i], logits + (size_t)row++ * PRETEND_VOCAB);
    }
    return row == b->n_row ? ERR_OK : err_set(e, ERR_BUG, "rows are not in order of tokens");
}

#endif
