/* Products: activations are made ready (norm, integers) once, by the threads that come first to a
 * share that reads them; threads take contiguous ranges of rows, so that each reads the weights in
 * long runs; long steps are cut by tokens before that (n_spans). For a single token every thread
 * makes the activations itself: cheaper than waiting for one another. What gate_up gives becomes
 * blocks where it is computed, if the matrix that reads it wants blocks. */
#include "kernels/cpu/device.h"
#include "kernels/cpu/quantise.h"

#include <stdatomic.h>
#include <string.h>

enum { SHARE_COLUMNS = 8192 }; /* of activations against a unit: a microsecond or two */
enum { SPAN_TOKENS = 32 };     /* for each thread, at least: see n_spans */
enum { PIECE_TOKENS = 8 };     /* made ready together: whole groups of blocks of 64 columns */

struct job {
    struct kern_device *d;
    const struct kern_matrix *w;
    struct kern_norm norm;       /* without a weight: none */
    const float *x;              /* [., width] */
    struct quant_block *x_quant; /* not NULL: in place of x */
    uint32_t width, n_tok;
    const uint32_t *row; /* NULL: row t of x is token t */
    enum product_mode mode;
    float *out;
    uint32_t out_width;
    struct quant_block *out_quant; /* not NULL: in place of out */
    uint64_t serial;               /* number of this job, so that a thread prepares a token once */
    uint32_t n_spans, row_shares;  /* of tokens; shares of each */
    struct progress *made;         /* [n_spans] */
};
_Static_assert(sizeof(struct job) <= TEAM_ARG_BYTES, "posted");

/* Of token t of n_tok, its first block among those of struct activations. */
static size_t block_index(const struct kern_device *d, uint32_t n_tok, uint32_t t, uint32_t cols)
{
    uint32_t most = d->isa->tile_tokens;
    uint32_t tile = tile_of(n_tok, most, t);
    return (size_t)tile * most * (cols / QUANT) + t - tile_start(n_tok, most, tile);
}

static void block_values(const struct quant_block *q, float *y)
{
    for (uint32_t i = 0; i < QUANT; i++)
        y[i] = q->scale * (float)q->fine[i];
    for (uint32_t k = 0; k < WIDE_WORDS; k++)
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t at = q->word[k] / 2 + i;
            y[at] = q->scale * (float)(128 * q->coarse[k][i] + q->fine[at]);
        }
}

static void values_of(const struct kern_device *d, const struct quant_block *q, uint32_t cols,
                      float *y)
{
    for (uint32_t i = 0; i < cols; i += QUANT, q += d->isa->tile_tokens)
        block_values(q, y + i);
}

static struct quant_block *blocks_of(const struct kern_buffer *b)
{
    return (struct quant_block *)(void *)b->data;
}

void cpu_row(const struct kern_device *d, const struct kern_buffer *b, uint32_t t, float *y)
{
    if (b->n_quant > 0)
        values_of(d, blocks_of(b) + block_index(d, b->n_quant, t, b->width), b->width, y);
    else
        memcpy(y, b->data + (size_t)t * b->width, b->width * sizeof *y);
}

/* Row of token t; made of its blocks where it has no other form. */
static const float *input_row(const struct job *j, uint32_t t, const struct activations *a)
{
    float *value = a->value + (size_t)t * j->width;
    if (!j->x_quant)
        return j->x + (size_t)(j->row ? j->row[t] : t) * j->width;
    values_of(j->d, j->x_quant + block_index(j->d, j->n_tok, t, j->width), j->width, value);
    return value;
}

static void prepare_floats(const struct job *j, const float *x, float *value)
{
    if (j->norm.weight)
        j->d->isa->norm(x, j->norm.weight->data, j->norm.eps, j->width, value);
    else if (x != value)
        memcpy(value, x, j->width * sizeof *value);
}

/* At most QUANT_ROWS tokens of the job, by every thread for itself or for all. */
static void prepare(const struct job *j, struct team_range tokens, const struct activations *a)
{
    const float *x[QUANT_ROWS];
    struct quant_block *out[QUANT_ROWS];
    struct quant_rows rows = {.cols = j->width, .x = x, .out = out};
    if (j->norm.weight) {
        rows.weight = j->norm.weight->data;
        rows.eps = j->norm.eps;
    }
    for (uint32_t t = tokens.from; t < tokens.to; t++) {
        x[rows.n] = input_row(j, t, a);
        out[rows.n++] = a->quant + block_index(j->d, j->n_tok, t, j->width);
    }
    if (j->w->has_quant)
        j->d->isa->quantise(&rows);
    for (uint32_t t = tokens.from; j->w->has_float && t < tokens.to; t++)
        prepare_floats(j, x[t - tokens.from], a->value + (size_t)t * j->width);
}

static struct team_range tiles_of(const struct job *j, uint32_t span)
{
    return team_share(tile_count(j->n_tok, j->d->isa->tile_tokens), span, j->n_spans);
}

static struct team_range tokens_of(const struct job *j, uint32_t span)
{
    struct team_range tiles = tiles_of(j, span);
    uint32_t most = j->d->isa->tile_tokens;
    return (struct team_range){tile_start(j->n_tok, most, tiles.from),
                               tile_start(j->n_tok, most, tiles.to)};
}

/* A span's activations, by whichever threads come to it first, piece by piece; returns when all
 * are made. The thread whose span it is finds nobody to wait for. */
static void prepare_span(const struct job *j, uint32_t span)
{
    struct progress *p = &j->made[span];
    struct team_range tokens = tokens_of(j, span);
    uint32_t count = tokens.to - tokens.from, n = (count + PIECE_TOKENS - 1) / PIECE_TOKENS;
    uint32_t threads = j->n_spans > 1 ? 1 : team_size(j->d->team);
    n = n < threads && threads <= count ? threads : n;
    if (atomic_load_explicit(&p->done, memory_order_acquire) == n)
        return;
    for (uint32_t i; (i = atomic_fetch_add(&p->begun, 1)) < n; atomic_fetch_add(&p->done, 1)) {
        struct team_range r = team_share(count, i, n);
        prepare(j, (struct team_range){tokens.from + r.from, tokens.from + r.to}, &j->d->shared);
    }
    for (uint32_t i = 0; atomic_load_explicit(&p->done, memory_order_acquire) != n; i++)
        team_relax(i);
}

static uint32_t rows_of(const struct panel *p, uint32_t group)
{
    uint32_t rest = p->rows - group * LANES;
    return rest < LANES ? rest : LANES;
}

static bool is_gate(enum product_mode mode)
{
    return mode == PRODUCT_GATE_SILU || mode == PRODUCT_GATE_GELU;
}

static uint32_t n_units(const struct kern_matrix *w, bool is_gate)
{
    return is_gate ? w->part[0].n_groups : w->n_units;
}

/* Units of gate and up that stay in one share: 32 rows, a block of what reads them. */
enum { GATE_UNITS = QUANT / LANES };

static uint32_t n_pieces(const struct kern_matrix *w, bool is_gate)
{
    return is_gate ? (n_units(w, true) + GATE_UNITS - 1) / GATE_UNITS : w->n_units;
}

/* Units from piece `from` to `to`. */
static struct team_range units_of(const struct kern_matrix *w, bool is_gate,
                                  struct team_range pieces)
{
    uint32_t step = is_gate ? GATE_UNITS : 1, n = n_units(w, is_gate), end = pieces.to * step;
    return (struct team_range){pieces.from * step, end < n ? end : n};
}

/* A unit is two groups of 16 rows: a pair of one part, or the same group of gate and up. Those of
 * `units` that go through one product are as many as make `most` groups, of one part; the next ones
 * begin at what comes back. */
static uint32_t find_pairs(const struct kern_matrix *w, struct team_range units, uint32_t most,
                           struct groups *g)
{
    uint32_t i = w->n_parts - 1;
    while (units.from < w->first_unit[i])
        i--;
    uint32_t group = (units.from - w->first_unit[i]) * 2, rest = w->part[i].n_groups - group;
    uint32_t n = (units.to - units.from) * 2 < most ? (units.to - units.from) * 2 : most;
    g->n = rest < n ? rest : n;
    for (uint32_t k = 0; k < g->n; k++) {
        g->panel[k] = &w->part[i];
        g->group[k] = group + k;
    }
    return units.from + (g->n + 1) / 2;
}

static uint32_t find_gates(const struct kern_matrix *w, struct team_range units, uint32_t most,
                           struct groups *g)
{
    uint32_t n = units.to - units.from < most / 2 ? units.to - units.from : most / 2;
    g->n = 2 * n;
    for (uint32_t k = 0; k < 2 * n; k++) {
        g->panel[k] = &w->part[k / n];
        g->group[k] = units.from + k % n;
    }
    return units.from + n;
}

/* A single token's runs are two groups further on each (struct product), of gate and up two each.
 */
_Static_assert(2 * GATE_UNITS <= MAX_GROUPS, "a run");
static uint32_t find_units(const struct job *j, const struct kern_matrix *w, bool is_gate,
                           struct team_range units, struct groups *g)
{
    uint32_t most = j->d->isa->tile_groups < 2 ? 2 : j->d->isa->tile_groups;
    if (j->n_tok == 1)
        most = is_gate ? 2 * GATE_UNITS : 2;
    return is_gate ? find_gates(w, units, most, g) : find_pairs(w, units, most, g);
}

/* Where the rows of the groups go. */
static void place_rows(const struct job *j, struct product *p)
{
    const struct groups *g = &p->now;
    for (uint32_t k = 0; k < g->n; k++) {
        uint32_t part = (uint32_t)(g->panel[k] - j->w->part);
        uint32_t first = is_gate(j->mode) ? 0 : j->w->first_row[part];
        uint32_t last = g->group[k] + (p->n_runs > 0 ? (p->n_runs - 1) * 2 : 0);
        p->n_rows[k] = rows_of(g->panel[k], last);
        p->out[k] = j->out + first + (size_t)g->group[k] * LANES;
    }
}

/* Shares of so many units that they fill a tile; as many for each of `threads` that have them
 * together, so that all have as many units: nine tiles would be five for one of two threads and
 * four for the other. */
static uint32_t tile_shares(const struct kern_device *d, uint32_t n, uint32_t threads)
{
    uint32_t units = (d->isa->tile_groups + 1) / 2;
    uint32_t shares = ((n + units - 1) / units + threads - 1) / threads * threads;
    return shares < n ? shares : n;
}

/* Long steps are cut by tokens, a span for each thread, and then by rows: what a thread made of its
 * tokens is in its own second cache when it reads it again (512 tokens of SmolLM2, two threads:
 * 3%). Weights then go by once for every thread, which 32 tokens make up for and 16 do not. */
static uint32_t n_spans(const struct kern_device *d, uint32_t n_tok)
{
    uint32_t threads = team_size(d->team);
    return threads > 1 && n_tok >= threads * SPAN_TOKENS ? threads : 1;
}

/* With many tokens a tile's units are work enough for a share: the last one is short and nobody
 * waits long for it. With few, shares are runs of units, read in long sequences. With one, a share
 * for each thread, where that takes some microseconds: to take another costs as much as a third of
 * a unit (SmolLM2, two threads with a third cache each: 4% of a token). Of a large matrix MANY_RUNS
 * times as many: of 1.1B a token takes 24.1 ms with 4 for each, 22.3 with 16, 24.3 with 64 and 24.5
 * without a limit. */
enum { LONG_SHARE = 8, MANY_RUNS = 16 }; /* LONG_SHARE: in SHARE_COLUMNS */
static uint32_t one_shares(const struct kern_device *d, uint32_t pieces, uint64_t fine)
{
    uint64_t threads = team_size(d->team), most = threads * MANY_RUNS;
    uint64_t n = fine < threads * LONG_SHARE ? threads : fine < most ? fine : most;
    return n < pieces ? (uint32_t)n : pieces;
}

static uint32_t n_shares(const struct job *j, const struct kern_matrix *w, bool is_gate)
{
    uint32_t pieces = n_pieces(w, is_gate), few = team_shares(j->d->team, pieces);
    uint32_t threads = j->n_spans > 1 ? 1 : team_size(j->d->team), n_tok = j->n_tok / j->n_spans;
    uint64_t fine = (uint64_t)n_units(w, is_gate) * n_tok * w->cols / SHARE_COLUMNS;
    uint32_t most = is_gate ? pieces : tile_shares(j->d, pieces, threads);
    most = most < TEAM_MAX_SHARES / j->n_spans ? most : TEAM_MAX_SHARES / j->n_spans;
    if (n_tok == 1)
        return one_shares(j->d, pieces, fine);
    if (is_gate && n_tok < LANES) /* as many blocks as are ranked together */
        most = (pieces * n_tok + LANES - 1) / LANES;
    return fine <= few ? few : fine < most ? (uint32_t)fine : most;
}

/* Units of the shares that are a thread's own. */
static struct team_range own_units(const struct job *j, const struct kern_matrix *w, bool is_gate,
                                   uint32_t thread)
{
    const struct team *team = j->d->team;
    uint32_t pieces = n_pieces(w, is_gate), n = n_shares(j, w, is_gate);
    struct team_range own = team_share(n, thread, team_size(team));
    if (j->n_spans > 1)
        own = (struct team_range){0, n};
    return units_of(w, is_gate,
                    (struct team_range){team_share(pieces, own.from, n).from,
                                        team_share(pieces, own.to, n).from});
}

/* What a thread reads first in the matrix that was loaded after this one and so, most often, is
 * used after it; one of two parts is gate and up. */
static bool find_next(const struct job *j, uint32_t thread, struct groups *g)
{
    const struct kern_matrix *w = j->w->next;
    if (!w)
        return false;
    bool is_gate = w->n_parts == 2;
    struct team_range own = own_units(j, w, is_gate, thread);
    for (size_t i = 0; w->next && i < sizeof *w; i += 64)
        __builtin_prefetch((const uint8_t *)w->next + i);
    if (own.from < own.to)
        (void)find_units(j, w, is_gate, own, g);
    return own.from < own.to;
}

/* Whether the input is what the product works on. */
static bool is_ready(const struct job *j)
{
    return j->x_quant && !j->norm.weight && !j->w->has_float;
}

/* Of one token every thread makes the activations itself: cheaper than waiting for one another. */
static bool is_prepared_alone(const struct job *j)
{
    return j->n_tok == 1 && !is_ready(j);
}

/* Rows of gate_up go to the thread's scratch, run by run, and from there, still in its first cache,
 * into blocks: the fourth largest word of 32 rows must be known before the first of them. */
static uint32_t run_units(const struct job *j, struct team_range units)
{
    uint32_t pieces = j->n_tok < BATCH_BLOCKS ? BATCH_BLOCKS / j->n_tok : 1,
             most = pieces * GATE_UNITS;
    uint32_t n = units.to - units.from;
    return j->out_quant && n > most ? most : n;
}

static void place_run(struct team_range units, uint32_t unit, float *gated, struct product *p)
{
    p->out_stride = (size_t)(units.to - units.from) * LANES;
    for (uint32_t k = 0; k < p->now.n / 2; k++) {
        p->out[k] = gated + (size_t)(unit - units.from + k) * LANES;
        p->n_rows[k] = LANES;
    }
}

/* Where blocks go, a batch at a time. */
struct batch {
    const struct cpu_isa *isa;
    const float *gated;
    uint32_t n;
    struct quant_block *place[BATCH_BLOCKS];
};

static void flush(struct batch *b)
{
    b->isa->quantise_blocks(b->gated, b->n, b->place);
    b->gated += b->n * QUANT;
    b->n = 0;
}

static void quantise_run(const struct job *j, struct team_range tiles, struct team_range units,
                         const float *gated)
{
    uint32_t most = j->d->isa->tile_tokens, end = tile_start(j->n_tok, most, tiles.from);
    size_t tile_blocks = (size_t)most * (j->out_width / QUANT);
    uint32_t from = units.from / GATE_UNITS, to = units.to / GATE_UNITS;
    struct batch b = {.isa = j->d->isa, .gated = gated + (size_t)end * (to - from) * QUANT};
    struct quant_block *tile = j->out_quant + tiles.from * tile_blocks;
    for (uint32_t i = tiles.from; i < tiles.to; i++, tile += tile_blocks) {
        uint32_t start = end;
        end = tile_start(j->n_tok, most, i + 1);
        for (uint32_t slot = 0; slot < end - start; slot++)
            for (uint32_t k = from; k < to; k++) {
                b.place[b.n++] = tile + (size_t)k * most + slot;
                if (b.n == BATCH_BLOCKS)
                    flush(&b);
            }
    }
    if (b.n > 0)
        flush(&b);
}

/* Of a single token, runs of groups like these that follow on one another: all of one layout, and
 * in one part of the matrix. How many; 0: these groups alone, the general way. */
static uint32_t count_runs(const struct job *j, uint32_t n_left, const struct groups *g)
{
    const struct panel *a = g->panel[0], *b = g->panel[g->n - 1];
    if (j->n_tok != 1 || !panel_is_quantised(a->layout) || a->layout != b->layout)
        return 0;
    if (is_gate(j->mode)) /* two groups of each, whole strips */
        return g->n == 2 * GATE_UNITS ? n_left / GATE_UNITS : 0;
    uint32_t full = g->n < 2 ? 1 : (a->n_groups - g->group[0]) / 2;
    return full < n_left ? full : n_left;
}

/* The units of a run; `end` is where the thread's own end. */
static void compute_run(const struct job *j, struct team_range units, uint32_t end, uint32_t thread,
                        struct product *p)
{
    bool gate = is_gate(j->mode);
    float *gated = j->d->scratch[thread].gated;
    for (uint32_t unit = units.from, after; unit < units.to; unit = after) {
        after = find_units(j, j->w, gate, (struct team_range){unit, units.to}, &p->now);
        p->n_runs = count_runs(j, units.to - unit, &p->now);
        if (p->n_runs > 0)
            after = unit + p->n_runs * (after - unit);
        if (j->out_quant)
            place_run(units, unit, gated, p);
        else
            place_rows(j, p);
        p->next = p->now;
        if (after < end)
            (void)find_units(j, j->w, gate, (struct team_range){after, end}, &p->next);
        else
            (void)find_next(j, thread, &p->next);
        j->d->isa->product(p);
    }
    if (j->out_quant)
        quantise_run(j, p->tiles, units, gated);
}

static void product_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct job *j = arg;
    struct thread_scratch *own = &j->d->scratch[thread];
    (void)n_shares;
    if (is_prepared_alone(j) && own->job != j->serial) {
        prepare(j, (struct team_range){0, 1}, &own->own);
        own->job = j->serial;
    }
    if (!is_prepared_alone(j) && !is_ready(j))
        prepare_span(j, share / j->row_shares);
    const struct activations ready = {j->d->shared.value, j->x_quant};
    const struct activations *made = is_prepared_alone(j) ? &own->own : &j->d->shared;
    struct product p = {.mode = j->mode,
                        .out_stride = j->out_width,
                        .x = is_ready(j) ? &ready : made,
                        .n_tok = j->n_tok,
                        .tiles = tiles_of(j, share / j->row_shares),
                        .fetch = cpu_fetch(j->d)};
    bool gate = is_gate(j->mode);
    struct team_range pieces =
        team_share(n_pieces(j->w, gate), share % j->row_shares, j->row_shares);
    struct team_range r = units_of(j->w, gate, pieces);
    if (own->run_job != j->serial) {
        own->run_job = j->serial;
        own->run = own_units(j, j->w, gate, thread);
    }
    struct team_range own_run = own->run;
    uint32_t end = r.from >= own_run.from && r.from < own_run.to ? own_run.to : r.to;
    while (r.from < r.to) {
        uint32_t to = r.from + run_units(j, r);
        compute_run(j, (struct team_range){r.from, to}, end, thread, &p);
        r.from = to;
    }
}

static void run_job(struct job *j)
{
    struct team *team = j->d->team;
    if (j->n_tok == 0)
        return;
    j->serial = ++j->d->serial;
    j->n_spans = n_spans(j->d, j->n_tok);
    j->row_shares = n_shares(j, j->w, is_gate(j->mode));
    /* The job before may be under way: it has the others. */
    j->made = j->d->made + j->serial % 2 * team_size(team);
    for (uint32_t i = 0; i < j->n_spans; i++) {
        atomic_init(&j->made[i].begun, 0);
        atomic_init(&j->made[i].done, 0);
    }
    struct team_job job = {
        .n_shares = j->n_spans * j->row_shares, .fn = product_part, .arg = j, .n_bytes = sizeof *j};
    if (is_prepared_alone(j) && j->norm.weight) {
        job.first = j->norm.weight->data;
        job.first_bytes = j->width * sizeof(float);
    }
    team_post(team, &job);
}

static struct job job_on(struct kern_device *d, const struct kern_buffer *in,
                         const struct kern_norm *norm, const struct kern_matrix *w)
{
    return (struct job){.d = d,
                        .w = w,
                        .norm = norm ? *norm : (struct kern_norm){0},
                        .x = in->data,
                        .x_quant = in->n_quant > 0 ? blocks_of(in) : NULL,
                        .width = in->width,
                        .n_tok = d->step->n_tok};
}

static void run_into(struct job *j, enum product_mode mode, struct kern_buffer *out)
{
    j->mode = mode;
    j->out = out->data;
    j->out_width = out->width;
    out->n_quant = j->out_quant ? j->n_tok : 0;
    run_job(j);
}

/* The matrix loaded after gate and up is the one that reads what they give. */
static bool is_read_in_blocks(const struct kern_matrix *gate_up)
{
    const struct kern_matrix *down = gate_up->next;
    return down && down->cols == gate_up->part[0].rows && down->has_quant && !down->has_float &&
           gate_up->has_quant && !gate_up->has_float;
}

void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y)
{
    struct job j = job_on(d, x, norm, w);
    run_into(&j, PRODUCT_STORE, y);
}

void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x)
{
    struct job j = job_on(d, h, NULL, w);
    run_into(&j, PRODUCT_ADD, x);
}

void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h)
{
    struct job j = job_on(d, x, norm, w);
    j.out_quant = is_read_in_blocks(w) ? blocks_of(h) : NULL;
    run_into(&j, g == KERN_GATE_GELU ? PRODUCT_GATE_GELU : PRODUCT_GATE_SILU, h);
}

void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits)
{
    struct job j = job_on(d, x, norm, w);
    j.n_tok = n_row;
    j.row = row;
    j.mode = PRODUCT_STORE;
    j.out = logits;
    j.out_width = w->rows;
    run_job(&j);
    team_join(d->team); /* the caller reads the logits */
}
