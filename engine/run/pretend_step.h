/* engine/run/pretend_step.h - logits and draws of the pretended model, as functions of hashes, and
 * a step of its pretended device. For pretend_model.h only. */
#ifndef ENGINE_RUN_PRETEND_STEP_H
#define ENGINE_RUN_PRETEND_STEP_H

#include "common/hash.h"
#include "engine/model/model.h"
#include "kernels/draw.h"

#include <math.h>
#include <string.h>

enum {
    PRETEND_VOCAB = 64,
    PRETEND_BLOCKS = 512,
    PRETEND_TOKENS = 64,
    PRETEND_TURNS = 100,
    NAN_TOKEN = 63
};

/* A step with draws: what the device was told, since the caller may forget it. */
struct pretended_step {
    uint32_t n_tok, n_row, n_copy, position[PRETEND_TOKENS], block[PRETEND_TOKENS],
        before[PRETEND_TOKENS], row_token[PRETEND_TOKENS], copy_from[PRETEND_TOKENS],
        copy_to[PRETEND_TOKENS];
    int32_t token[PRETEND_TOKENS], last[PRETEND_TOKENS];
    uint64_t wanted[PRETEND_TOKENS]; /* a hash of the row's kern_draw, but for `last` */
    bool on_host[PRETEND_TOKENS];
    uint32_t n_top[PRETEND_TOKENS]; /* the best are token 0, as often as asked */
    struct kern_drawn *drawn;
    float *logits;
};

static void pretend_logits(uint64_t h, int32_t token, float *row)
{
    for (uint32_t i = 0; i < PRETEND_VOCAB; i++) {
        uint64_t x = hash64(&i, sizeof i, h);
        row[i] = token == NAN_TOKEN ? NAN : (float)(x % 1000) * 0.006f - 3;
    }
    if (token != NAN_TOKEN)
        row[NAN_TOKEN] = -1e30f; /* never drawn, only prompts hold it */
}

static uint64_t hash_wanted(const struct kern_draw *w, int32_t *last)
{
    uint32_t n = w->tokens ? w->n_prompt + w->n_output : 0;
    uint64_t h = hash64(&w->u, sizeof w->u, w->top_k);
    *last = n ? w->tokens[n - 1] : 0;
    return hash64(w->tokens, n ? (n - 1) * sizeof *w->tokens : 0, h);
}

/* Where a token's KV goes, and that of the token before it; no block table lives on. */
static void copy_step(struct pretended_step *s, const struct model_batch *b)
{
    for (uint32_t i = 0; i < b->n_tok; i++) {
        const uint32_t *table = b->block_table[b->seq[i]];
        uint32_t p = b->position[i];
        s->token[i] = b->token[i];
        s->position[i] = p;
        s->block[i] = table[p / KV_BLOCK_TOKENS];
        s->before[i] = p ? table[(p - 1) / KV_BLOCK_TOKENS] : 0;
    }
    memcpy(s->row_token, b->row_token, b->n_row * sizeof *b->row_token);
    memcpy(s->copy_from, b->copy_from, b->n_copy * sizeof *b->copy_from);
    memcpy(s->copy_to, b->copy_to, b->n_copy * sizeof *b->copy_to);
}

static int32_t known(const int32_t *before, int32_t token)
{
    return token < 0 ? before[-1 - token] : token;
}

static struct kern_drawn draw_pretended(uint64_t h, uint64_t wanted, int32_t last, int32_t token)
{
    float row[PRETEND_VOCAB];
    struct kern_drawn out = {.token = (int32_t)(hash64(&last, sizeof last, wanted ^ h) % NAN_TOKEN),
                             .largest = -3};
    pretend_logits(h, token, row);
    for (uint32_t i = 0; i < PRETEND_VOCAB; i++)
        out.largest = row[i] > out.largest ? row[i] : out.largest;
    for (uint32_t i = 0; i < PRETEND_VOCAB; i++)
        out.total += exp((double)(row[i] - out.largest));
    out.logit = row[out.token];
    return out;
}

#endif
