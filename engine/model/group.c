/* Ranks of one model. A step in words of 32 bits: tokens, positions, sequences, rows with logits,
 * blocks to copy from and to, then each sequence's block table, as many entries as its last
 * position needs. */
#include "engine/model/group.h"

#include "common/clock.h"
#include "common/log.h"
#include "kernels/comm/comm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* LOOK_MS: a step that nothing follows is waited for after this, so that its error is seen. */
enum { HEAD_WORDS = 5, MAX_WORDS = 1 << 26, LOOK_MS = 100 };

struct group {
    struct comm *comm;
    size_t width[GROUP_WIDTHS][COMM_MAX_RANKS];
    float *own, *each; /* columns of this rank, and of one rank after the other */
    float *stage;      /* [max_batch_tokens, .] a whole buffer */
    float *part;       /* [max_batch_rows, .] logits of this rank */
    float *parts;      /* of all, one rank after the other; rank 0 */
    uint32_t n_tok;    /* of the step */
    uint32_t *words;   /* a step */
    size_t words_cap;
    const uint32_t **table;  /* [max_batch_tokens] of the step received */
    bool is_on_device;       /* buffers meet in the devices' memory */
    uint64_t device_comm_us; /* of that, counted in comm_us already */
    _Atomic uint64_t comm_us;
    struct err error;
};

static int note(struct group *g, struct mono start, int rc)
{
    atomic_fetch_add_explicit(&g->comm_us, mono_since_us(start, clock_mono(&CLOCK_REAL)),
                              memory_order_relaxed);
    return rc;
}

static size_t widest(const struct group *g, enum group_width what)
{
    size_t n = 0;
    for (uint32_t r = 0; r < g->comm->size; r++)
        n = g->width[what][r] > n ? g->width[what][r] : n;
    return n;
}

/* Rows of a token: hidden values are those of each expert it uses. */
static size_t rows_of(const struct model *m, enum group_width what)
{
    return what == GROUP_HIDDEN && m->info.n_expert ? m->info.n_expert_used : 1;
}

static int open_stage(struct group *g, const struct model *m, struct err *e)
{
    size_t n_tok = m->options.max_batch_tokens, most = m->info.d_model;
    for (int what = 0; what < GROUP_VOCAB; what++) {
        size_t n = rows_of(m, what) * widest(g, what) * g->comm->size;
        most = n > most ? n : most;
    }
    if (g->is_on_device)
        return ERR_OK;
    g->own = calloc(n_tok, most / g->comm->size * sizeof *g->own);
    g->each = calloc(n_tok, most * sizeof *g->each);
    g->stage = calloc(n_tok, most * sizeof *g->stage);
    if (!g->own || !g->each || !g->stage)
        return err_set(e, ERR_NOMEM, "ranks: buffers for %zu tokens", n_tok);
    return ERR_OK;
}

static int open_buffers(struct group *g, const struct model *m, struct err *e)
{
    const struct model_options *o = &m->options;
    size_t rows = o->max_batch_rows;
    g->part = calloc(rows * g->width[GROUP_VOCAB][g->comm->rank] + 1, sizeof *g->part);
    g->parts = group_is_first(m) ? calloc(rows * m->info.n_vocab + 1, sizeof *g->parts) : NULL;
    g->table = calloc(o->max_batch_tokens, sizeof *g->table);
    if (!g->part || !g->table || (group_is_first(m) && !g->parts))
        return err_set(e, ERR_NOMEM, "ranks: buffers for %u rows", o->max_batch_rows);
    return open_stage(g, m, e);
}

static int agree_on_widths(struct group *g, const size_t width[GROUP_WIDTHS], struct err *e)
{
    size_t all[COMM_MAX_RANKS][GROUP_WIDTHS];
    struct comm *c = g->comm;
    int rc = c->ops->all_gather(c, width, sizeof *all, all, COMM_BYTE, e);
    for (uint32_t r = 0; r < c->size && rc == ERR_OK; r++)
        for (int what = 0; what < GROUP_WIDTHS; what++)
            g->width[what][r] = all[r][what];
    return rc;
}

int group_open(struct model *m, const size_t width[GROUP_WIDTHS], struct err *e)
{
    struct comm *c = m->options.ranks;
    if (!c)
        return ERR_OK;
    struct group *g = m->group = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_NOMEM, "ranks");
    g->comm = c;
    g->is_on_device = m->ops->join != NULL;
    int rc;
    TRY(agree_on_widths(g, width, e));
    TRY(open_buffers(g, m, e));
    if (g->is_on_device)
        rc = m->ops->join(m->device, c, e);
out:
    return rc;
}

void group_close(struct model *m)
{
    struct group *g = m->group;
    uint32_t head[HEAD_WORDS] = {0};
    if (!g)
        return;
    if (group_is_first(m) && g->error.code == ERR_OK &&
        g->comm->ops->broadcast(g->comm, head, sizeof head, COMM_BYTE, 0, &g->error) != ERR_OK)
        log_event(LOG_WARN, "model.group_ended", "err=\"%s\"", g->error.msg);
    free(g->own);
    free(g->each);
    free(g->stage);
    free(g->part);
    free(g->parts);
    free(g->words);
    free(g->table);
    free(g);
    m->group = NULL;
}

int group_ready(struct model *m, struct err *e)
{
    struct comm *c = m->options.ranks;
    return c ? c->ops->barrier(c, e) : ERR_OK;
}

void group_abort(struct model *m, const struct err *e)
{
    struct comm *c = m->options.ranks;
    if (c && e)
        c->ops->abort(c, e->msg);
    if (m->group && e)
        m->group->error = *e;
}

bool group_is_first(const struct model *m)
{
    return !m->options.ranks || m->options.ranks->rank == 0;
}

int group_error(const struct model *m, struct err *e)
{
    const struct group *g = m->group;
    if (!g || g->error.code == ERR_OK)
        return ERR_OK;
    return err_set(e, ERR_DEVICE, "ranks: %s", g->error.msg);
}

uint64_t group_comm_us(const struct model *m)
{
    return m->group ? atomic_load_explicit(&m->group->comm_us, memory_order_relaxed) : 0;
}

const size_t *group_widths(const struct model *m)
{
    return m->group ? m->group->width[GROUP_VOCAB] : NULL;
}

static bool has_room(struct group *g, size_t words)
{
    if (words <= g->words_cap)
        return true;
    uint32_t *p = words < MAX_WORDS ? realloc(g->words, words * sizeof *p) : NULL;
    if (!p) {
        err_set(&g->error, ERR_NOMEM, "no memory for a step of %zu words", words);
        return false;
    }
    g->words = p;
    g->words_cap = words;
    return true;
}

static bool is_last_of_seq(const struct model_batch *b, uint32_t t)
{
    return t + 1 == b->n_tok || b->seq[t + 1] != b->seq[t];
}

static uint32_t n_blocks_of(const struct model_batch *b, uint32_t t)
{
    return b->position[t] / KV_BLOCK_TOKENS + 1;
}

static size_t step_words(const struct model_batch *b)
{
    size_t n = 3 * (size_t)b->n_tok + b->n_row + 2 * (size_t)b->n_copy;
    for (uint32_t t = 0; t < b->n_tok; t++)
        n += is_last_of_seq(b, t) ? n_blocks_of(b, t) : 0;
    return n;
}

static uint32_t *put_words(uint32_t *to, const void *from, uint32_t n)
{
    if (n)
        memcpy(to, from, n * sizeof *to);
    return to + n;
}

static void write_step(uint32_t *w, const struct model_batch *b)
{
    w = put_words(w, b->token, b->n_tok);
    w = put_words(w, b->position, b->n_tok);
    w = put_words(w, b->seq, b->n_tok);
    w = put_words(w, b->row_token, b->n_row);
    w = put_words(w, b->copy_from, b->n_copy);
    w = put_words(w, b->copy_to, b->n_copy);
    for (uint32_t t = 0; t < b->n_tok; t++)
        if (is_last_of_seq(b, t))
            w = put_words(w, b->block_table[b->seq[t]], n_blocks_of(b, t));
}

static int broadcast(struct group *g, uint32_t *words, size_t n)
{
    struct comm *c = g->comm;
    return c->ops->broadcast(c, words, n * sizeof *words, COMM_BYTE, 0, &g->error);
}

void group_send(struct model *m, const struct model_batch *b)
{
    struct group *g = m->group;
    if (!g || g->error.code != ERR_OK)
        return;
    struct mono start = clock_mono(&CLOCK_REAL);
    size_t n = step_words(b);
    uint32_t head[HEAD_WORDS] = {b->n_tok, b->n_row, b->n_copy, (uint32_t)n, m->is_drawn};
    g->n_tok = b->n_tok;
    if (!has_room(g, n))
        return;
    write_step(g->words, b);
    int rc = broadcast(g, head, HEAD_WORDS);
    if (rc == ERR_OK)
        rc = broadcast(g, g->words, n);
    (void)note(g, start, rc);
}

/* Sequences come in any number but each stands together: tables are kept by sequence. */
static int read_step(struct model *m, uint32_t n_words, struct model_batch *b, struct err *e)
{
    struct group *g = m->group;
    const uint32_t *w = g->words;
    b->token = (const int32_t *)w;
    b->position = w + b->n_tok;
    b->seq = b->position + b->n_tok;
    b->row_token = b->seq + b->n_tok;
    b->copy_from = b->row_token + b->n_row;
    b->copy_to = b->copy_from + b->n_copy;
    const uint32_t *table = b->copy_to + b->n_copy, *end = w + n_words;
    for (uint32_t t = 0; t < b->n_tok; t++) {
        if (!is_last_of_seq(b, t))
            continue;
        if (b->seq[t] >= m->options.max_batch_tokens || n_blocks_of(b, t) > (size_t)(end - table))
            return err_set(e, ERR_CORRUPT, "ranks: a step of %u words is cut off", n_words);
        g->table[b->seq[t]] = table;
        table += n_blocks_of(b, t);
    }
    b->block_table = g->table;
    return ERR_OK;
}

bool group_is_called(struct model *m)
{
    struct comm *c = m->group->comm;
    return c->ops->is_called(c, 0, LOOK_MS);
}

int group_receive(struct model *m, struct model_batch *out, struct err *e)
{
    struct group *g = m->group;
    uint32_t head[HEAD_WORDS];
    int rc;
    TRY(broadcast(g, head, HEAD_WORDS));
    *out = (struct model_batch){.n_tok = head[0], .n_row = head[1], .n_copy = head[2]};
    if (out->n_tok == 0)
        return err_set(e, ERR_CANCELLED, "ranks: the end");
    if (head[3] < 3 * (uint64_t)out->n_tok + out->n_row + 2 * (uint64_t)out->n_copy ||
        !has_room(g, head[3]))
        return err_set(e, ERR_CORRUPT, "ranks: a step of %u tokens in %u words", head[0], head[3]);
    TRY(broadcast(g, g->words, head[3]));
    g->n_tok = out->n_tok;
    m->is_drawn = head[4];
    return read_step(m, head[3], out, e);
out:
    return group_error(m, e);
}

void group_share(struct model *m, struct kern_buffer *x)
{
    struct group *g = m->group;
    if (!g || g->error.code != ERR_OK)
        return;
    if (g->is_on_device) {
        m->ops->share(m->device, x, g->n_tok);
        return;
    }
    struct mono start = clock_mono(&CLOCK_REAL);
    size_t n = (size_t)g->n_tok * m->info.d_model;
    if (group_is_first(m))
        m->ops->read(m->device, x, g->stage, g->n_tok);
    (void)note(g, start, g->comm->ops->broadcast(g->comm, g->stage, n, COMM_F32, 0, &g->error));
    if (!group_is_first(m))
        m->ops->write(m->device, x, g->stage, g->n_tok);
}

void group_sum(struct model *m, const struct kern_buffer *from, struct kern_buffer *to)
{
    struct group *g = m->group;
    if (g && g->error.code == ERR_OK)
        m->ops->sum(m->device, from, to, g->n_tok);
}

/* [rank][n_row][its width] to [n_row][all columns]. rank_stride: from one rank to the next; 0: no
 * gaps. */
static void join_columns(const struct group *g, enum group_width what, const float *from,
                         size_t n_row, size_t rank_stride, float *to)
{
    const size_t *width = g->width[what];
    size_t all = 0, column = 0;
    for (uint32_t r = 0; r < g->comm->size; r++)
        all += width[r];
    for (uint32_t r = 0; r < g->comm->size; column += width[r++]) {
        for (size_t i = 0; i < n_row; i++)
            memcpy(to + i * all + column, from + i * width[r], width[r] * sizeof *to);
        from += rank_stride ? rank_stride : n_row * width[r];
    }
}

void group_collect(struct model *m, enum group_width what, const struct kern_buffer *from,
                   struct kern_buffer *to)
{
    struct group *g = m->group;
    if (g->error.code != ERR_OK)
        return;
    struct comm *c = g->comm;
    size_t n_row = g->n_tok * rows_of(m, what), n = n_row * widest(g, what);
    m->ops->read(m->device, from, g->own, g->n_tok);
    struct mono start = clock_mono(&CLOCK_REAL);
    if (note(g, start, c->ops->all_gather(c, g->own, n, g->each, COMM_F32, &g->error)) != ERR_OK)
        return;
    join_columns(g, what, g->each, n_row, n, g->stage);
    m->ops->write(m->device, to, g->stage, g->n_tok);
}

float *group_logits(struct model *m, float *logits)
{
    return m->group ? m->group->part : logits;
}

/* Of the device's collectives, those of the steps before. */
void group_count(struct model *m)
{
    struct group *g = m->group;
    if (!g)
        return;
    uint64_t us = g->is_on_device ? m->ops->comm_us(m->device) : 0;
    atomic_fetch_add_explicit(&g->comm_us, us - g->device_comm_us, memory_order_relaxed);
    g->device_comm_us = us;
}

void group_gather(struct model *m, uint32_t n_row, float *logits)
{
    struct group *g = m->group;
    size_t n_send[COMM_MAX_RANKS] = {0}, n_recv[COMM_MAX_RANKS] = {0};
    if (!g || g->error.code != ERR_OK)
        return;
    group_count(m);
    struct mono start = clock_mono(&CLOCK_REAL);
    const size_t *width = g->width[GROUP_VOCAB];
    n_send[0] = n_row * width[g->comm->rank];
    for (uint32_t r = 0; r < g->comm->size && group_is_first(m); r++)
        n_recv[r] = n_row * width[r];
    int rc = note(g, start,
                  g->comm->ops->all_to_all_v(g->comm, g->part, n_send, g->parts, n_recv, COMM_F32,
                                             &g->error));
    if (rc == ERR_OK && group_is_first(m))
        join_columns(g, GROUP_VOCAB, g->parts, n_row, 0, logits);
}
