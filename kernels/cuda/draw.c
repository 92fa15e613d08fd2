/* head_draw: the rows' parameters and the tokens of their penalties go to the device before the
 * head, tokens come back after it. Rows in slices, as in head; a row that is not drawn leaves its
 * logits instead. */
#include "kernels/comm/comm.h"
#include "kernels/cuda/device.h"

#include <string.h>

static void *take_host(struct kern_device *d, size_t n, size_t size)
{
    size_t bytes;
    return size_mul(n, size, &bytes) ? d->dev->host_alloc(bytes) : NULL;
}

static bool take_rows(struct kern_device *d, struct draw_stage *s)
{
    struct draw_args *a = &s->on_device;
    bool is_there = true;
    for (int i = 0; i < MAX_UNDER_WAY; i++) {
        struct step_slot *slot = &d->steps.slot[i];
        slot->row = take_host(d, s->max_row, sizeof *slot->row);
        slot->out = take_host(d, s->max_row, sizeof *slot->out);
        slot->history = take_host(d, DRAW_MAX_HISTORY, sizeof *slot->history);
        is_there = is_there && slot->row && slot->out && slot->history;
    }
    a->row = device_take(d, s->max_row, sizeof *a->row);
    a->out = device_take(d, s->max_row, sizeof *a->out);
    a->before = device_take(d, s->max_row, sizeof *a->before);
    a->history = device_take(d, DRAW_MAX_HISTORY, sizeof *a->history);
    return is_there && a->row && a->out && a->before && a->history;
}

static bool take_scratch(struct kern_device *d, struct draw_stage *s)
{
    struct draw_args *a = &s->on_device;
    size_t n = (size_t)LOGITS_ROWS * s->n_vocab;
    size_t blocks = (size_t)LOGITS_ROWS * ((s->n_vocab + DRAW_BLOCK - 1) / DRAW_BLOCK);
    a->weight = device_take(d, n, sizeof *a->weight);
    a->key = device_take(d, n, sizeof *a->key);
    a->count = device_take(d, n, sizeof *a->count);
    a->most = device_take(d, blocks, sizeof *a->most);
    a->sum = device_take(d, blocks, sizeof *a->sum);
    if (s->part) {
        s->parts = device_take(d, n, sizeof *s->parts);
        s->joined = device_take(d, n, sizeof *s->joined);
        if (!s->parts || !s->joined)
            return false;
    }
    if (!a->weight || !a->key || !a->count || !a->most || !a->sum)
        return false;
    d->dev->fill(a->count, 0, n * sizeof *a->count, d->stream);
    return true;
}

int device_draws(struct kern_device *d, uint32_t n_vocab, const size_t *part, uint32_t max_row,
                 struct err *e)
{
    struct draw_stage *s = &d->draw;
    if (n_vocab > DRAW_MAX_VOCAB)
        return err_set(e, ERR_UNSUPPORTED, "backend %s: draws among %d tokens at most, not %u",
                       d->dev->name, DRAW_MAX_VOCAB, n_vocab);
    s->n_vocab = s->on_device.n_vocab = n_vocab;
    s->max_row = max_row;
    s->part = part;
    if (part && d->ranks.comm->rank > 0)
        return ERR_OK;
    if (!take_rows(d, s) || !take_scratch(d, s))
        return err_set(e, ERR_NOMEM, "backend %s: no memory to draw %u rows of %u", d->dev->name,
                       max_row, n_vocab);
    return ERR_OK;
}

/* Parameters of a row; *n_history grows by its tokens. */
static struct draw_row row_of(struct step_slot *s, const struct kern_draw *w, uint32_t *n_history)
{
    uint32_t n = w->n_prompt + w->n_output, first = *n_history;
    if (w->on_host || (w->tokens && n > DRAW_MAX_HISTORY - first))
        return (struct draw_row){.is_skipped = 1};
    if (w->tokens) {
        memcpy(s->history + first, w->tokens, n * sizeof *w->tokens);
        *n_history += n;
    }
    return (struct draw_row){.scale = w->scale,
                             .repetition = w->repetition,
                             .top_k = w->top_k,
                             .n_top = w->n_top,
                             .has_penalties = w->tokens != NULL,
                             .first = first,
                             .n_prompt = w->n_prompt,
                             .n_output = w->n_output,
                             .presence = w->presence,
                             .frequency = w->frequency,
                             .top_p = w->top_p,
                             .min_p = w->min_p,
                             .u = w->u};
}

static void upload_rows(struct kern_device *d, const struct kern_draw *draw, uint32_t n_row)
{
    struct step_slot *s = device_slot(d);
    const struct draw_args *a = &d->draw.on_device;
    uint32_t n_history = 0;
    for (uint32_t r = 0; r < n_row; r++)
        s->row[r] = row_of(s, &draw[r], &n_history);
    d->dev->copy((void *)(uintptr_t)a->row, s->row, n_row * sizeof *a->row, DEV_TO_DEVICE,
                 d->stream);
    if (n_history)
        d->dev->copy((void *)(uintptr_t)a->history, s->history, n_history * sizeof *a->history,
                     DEV_TO_DEVICE, d->stream);
}

/* The rows that the step before drew, for tokens below zero. */
void device_keep_drawn(struct kern_device *d)
{
    const struct draw_args *a = &d->draw.on_device;
    d->dev->copy((void *)(uintptr_t)a->before, a->out, d->draw.n_last * sizeof *a->out,
                 DEV_ON_DEVICE, d->stream);
}

/* Logits of the rows of a slice that are not drawn. */
static void copy_skipped(struct kern_device *d, const float *from, uint32_t first, uint32_t n,
                         float *logits)
{
    const struct draw_row *row = device_slot(d)->row + first;
    size_t n_vocab = d->draw.n_vocab;
    for (uint32_t r = 0; r < n; r++)
        if (row[r].is_skipped)
            d->dev->copy(logits + (first + r) * n_vocab, from + r * n_vocab,
                         n_vocab * sizeof *logits, DEV_TO_HOST, d->stream);
}

void device_head_draw(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                      const uint32_t *row, const struct kern_norm *norm,
                      const struct kern_matrix *w, const struct kern_draw *draw,
                      struct kern_drawn *drawn, float *logits)
{
    struct step_slot *slot = device_slot(d);
    const struct draw_stage *s = &d->draw;
    if (!device_graph_end(d) || n_row == 0)
        return;
    if (draw)
        upload_rows(d, draw, n_row);
    device_pick(d, row, n_row);
    for (uint32_t r = 0; r < n_row; r += LOGITS_ROWS) {
        struct draw_args a = s->on_device;
        a.row += r;
        a.out += r;
        a.n_row = n_row - r < LOGITS_ROWS ? n_row - r : LOGITS_ROWS;
        device_logits(d, x, r, a.n_row, norm, w);
        a.logits = s->part ? device_gather(d, a.n_row, w->rows) : d->logits;
        if (!a.logits)
            continue;
        d->kernels->draw(&a, d->stream);
        copy_skipped(d, a.logits, r, a.n_row, logits);
    }
    if (!draw)
        return;
    d->dev->copy(slot->out, s->on_device.out, n_row * sizeof *drawn, DEV_TO_HOST, d->stream);
    slot->drawn = drawn;
    slot->n_drawn = d->draw.n_last = n_row;
}
