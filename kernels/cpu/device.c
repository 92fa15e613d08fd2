/* The fast CPU backend: choice of instruction set, memory, and the ops table. Scratch grows when
 * matrices are loaded, never in a step. */
#include "kernels/cpu/device.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_plain(void)
{
    return true;
}

#if defined(__x86_64__)
/* clang 14's __builtin_cpu_supports knows neither this one nor AVX-VNNI. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avxvnni(void)
{
    unsigned a, b, c, d; /* leaf 7.1, EAX bit 4 */
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) && has_avx2();
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2") && has_avx2();
}
#endif

/* AMD's cores that have AVX2: Zen, but for one older kind. */
static bool is_zen(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd") && has_avx2();
#else
    return false;
#endif
}

static const struct {
    const struct cpu_isa *isa;
    bool (*is_here)(void);
    bool is_for_zen; /* the best for AMD's cores only; runs on all that have the instructions */
} ISAS[] = {
/* the best first */
#if defined(__x86_64__)
    {&ISA_AVX512ZEN, has_avx512, true}, {&ISA_AVX512, has_avx512, false},
    {&ISA_AVXVNNI, has_avxvnni, false}, {&ISA_AVX2, has_avx2, false},
#endif
    {&ISA_PLAIN, has_plain, false},
};

static const struct cpu_isa *choose_isa(const char *name)
{
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++) {
        bool is_wanted =
            name ? strcmp(ISAS[i].isa->name, name) == 0 : !ISAS[i].is_for_zen || is_zen();
        if (is_wanted && ISAS[i].is_here())
            return ISAS[i].isa;
    }
    return NULL;
}

static void cpu_close(struct kern_device *d)
{
    if (!d)
        return;
    team_close(d->team);
    memory_free(&d->memory);
    memory_free(&d->scratch_memory);
    free(d);
}

static size_t largest_cache(void)
{
    enum { UNKNOWN_CACHE_BYTES = 32 << 20 };
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : UNKNOWN_CACHE_BYTES;
}

/* What comes from memory is fetched two whole groups ahead, from a nearer cache less far, since
 * four groups of 1536 columns are more than the first cache holds (`down` of SmolLM2 took 15%
 * longer; 5 to 12 KiB do as well). Into the second cache from memory: an Intel core keeps 16 lines
 * in flight for its first one, too few for that latency (1.1B, 646 MB a token, two cores: 31
 * tokens/s into the first, 36 into the second). AMD's cores keep as many for either, and wait again
 * for what is only in the second; from memory, too, they do best with a short distance
 * (kernels/README.md, "AMD"), a little less short where several threads find much of the weights in
 * third caches: SmolLM2, two threads with one each: 2.5% of a token; with one thread 1 to 2% are
 * lost, with 1.1B weights 0.7%. */
struct fetch cpu_fetch(const struct kern_device *d)
{
    enum { NEAR_BYTES = 9600, QUICK_BYTES = 11520, QUICK_CACHES = 4 };
    bool is_far = d->weight_bytes > d->cache_bytes && !d->is_zen;
    bool is_quick = team_size(d->team) > 1 && d->weight_bytes / QUICK_CACHES < d->cache_bytes;
    return is_far ? (struct fetch){0, true}
                  : (struct fetch){is_quick ? QUICK_BYTES : NEAR_BYTES, false};
}

static int no_memory(const char *what, struct err *e)
{
    return err_set(e, ERR_NOMEM, "backend cpu: no memory for %s", what);
}

static bool take_scratch(struct kern_device *d)
{
    size_t n_gated = (size_t)QUANT * (d->max_tok > BATCH_BLOCKS ? d->max_tok : BATCH_BLOCKS);
    d->scratch = memory_take(&d->scratch_memory, team_size(d->team), sizeof *d->scratch);
    d->made = memory_take(&d->scratch_memory, 2 * (size_t)team_size(d->team), sizeof *d->made);
    for (uint32_t i = 0; d->scratch && i < team_size(d->team); i++) {
        d->scratch[i].gated = memory_take(&d->scratch_memory, n_gated, sizeof(float));
        if (!d->scratch[i].gated)
            return false;
    }
    return d->scratch && d->made;
}

static int cpu_open(struct kern_device **out, const struct kern_options *o, struct err *e)
{
    int rc;
    *out = NULL;
    if (o->has_fp8_weights)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend cpu: no fp8 weights: engine.weights file, or engine.device cuda, "
                       "simt or ref");
    if (o->has_library_gemm)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend cpu: engine.gemm cublaslt is for devices cuda and simt: own here");
    struct kern_device *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory("the device", e);
    d->max_tok = o->max_tok;
    d->cache_bytes = largest_cache();
    d->is_zen = is_zen();
    d->scratch_memory.has_small_pages = true;
    d->isa = choose_isa(o->instruction_set);
    if (!d->isa) {
        rc = err_set(e, ERR_UNSUPPORTED,
                     "backend cpu: instruction set '%s': avx512zen, avx512, avxvnni, avx2 "
                     "and plain are known, and this processor must have it",
                     o->instruction_set);
        goto out;
    }
    TRY(team_open(&d->team, o->n_threads, e));
    if (!take_scratch(d)) {
        rc = no_memory("the device", e);
        goto out;
    }
    *out = d;
    return ERR_OK;
out:
    cpu_close(d);
    return rc;
}

static uint32_t cpu_n_threads(const struct kern_device *d)
{
    return team_size(d->team);
}

static size_t cpu_weight_bytes(const struct kern_device *d)
{
    return d->weight_bytes;
}

/* Places for blocks of n tokens, in tiles. */
static size_t tile_slots(const struct kern_device *d, uint32_t n)
{
    return (size_t)tile_count(n, d->isa->tile_tokens) * d->isa->tile_tokens;
}

static bool take_activations(struct kern_device *d, uint32_t n, uint32_t cols,
                             struct activations *a)
{
    struct memory *m = &d->scratch_memory;
    size_t n_slots = tile_slots(d, n);
    a->value = memory_take(m, (size_t)n * cols, sizeof *a->value);
    a->quant = memory_take(m, n_slots * (cols / QUANT), sizeof *a->quant);
    return a->value && a->quant;
}

/* Wide enough for the widest matrix seen. */
static int grow_scratch(struct kern_device *d, uint32_t cols, struct err *e)
{
    if (cols <= d->max_cols)
        return ERR_OK;
    bool ok = take_activations(d, d->max_tok, cols, &d->shared);
    for (uint32_t i = 0; i < team_size(d->team); i++)
        ok = ok && take_activations(d, 1, cols, &d->scratch[i].own);
    d->max_cols = cols;
    return ok ? ERR_OK : no_memory("scratch", e);
}

struct pack_job {
    struct team *team;
    const struct panel *panel;
    const struct kern_part *part;
};

static void pack_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct pack_job *j = arg;
    struct team_range r = team_share(j->panel->n_groups, share, n_shares);
    (void)thread;
    cpu_pack_groups(j->panel, j->part, r.from, r.to);
}

static void pack_body(void *arg)
{
    struct pack_job *j = arg;
    team_each(j->team, team_shares(j->team, j->panel->n_groups), pack_part, j);
}

/* Gate and up: two parts alike, which lie in turn (panel.h). */
static bool are_twins(const struct kern_matrix *m)
{
    const struct panel *a = &m->part[0], *b = &m->part[1];
    return m->n_parts == 2 && a->rows == b->rows && a->layout == b->layout &&
           panel_is_quantised(a->layout);
}

static int take_panels(struct kern_device *d, struct kern_matrix *m, struct err *e)
{
    bool twins = are_twins(m);
    for (uint32_t i = 0; i < m->n_parts; i++) {
        struct panel *p = &m->part[i];
        size_t own = p->pair_step;
        p->pair_step = twins ? 2 * own : own;
        p->data = twins && i > 0 ? m->part[0].data + own
                                 : memory_take(&d->memory, twins ? 2 : 1, panel_bytes(p));
        if (!p->data)
            return err_set(e, ERR_NOMEM, "backend cpu: no memory for %u x %u weights", p->rows,
                           p->cols);
        d->weight_bytes += panel_bytes(p);
    }
    return ERR_OK;
}

static int cpu_matrix(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                      uint32_t n_parts, const struct kern_matrix **out, struct err *e)
{
    int rc;
    struct kern_matrix *m = memory_take(&d->scratch_memory, 1, sizeof *m);
    if (!m)
        return no_memory("a matrix", e);
    TRY(grow_scratch(d, cols, e));
    m->cols = cols;
    m->n_parts = n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        struct panel *p = &m->part[i];
        TRY(cpu_panel_shape(d->isa, &parts[i], cols, p, e));
        m->first_row[i] = m->rows;
        m->first_unit[i] = m->n_units;
        m->rows += p->rows;
        m->n_units += (p->n_groups + 1) / 2;
        m->has_float = m->has_float || !panel_is_quantised(p->layout);
        m->has_quant = m->has_quant || panel_is_quantised(p->layout);
    }
    TRY(take_panels(d, m, e));
    for (uint32_t i = 0; i < n_parts; i++)
        team_run(d->team, pack_body, &(struct pack_job){d->team, &m->part[i], &parts[i]});
    if (d->last_matrix)
        d->last_matrix->next = m;
    d->last_matrix = m;
    *out = m;
out:
    return rc;
}

static int cpu_vector(struct kern_device *d, const float *data, uint32_t n,
                      const struct kern_vector **out, struct err *e)
{
    struct kern_vector *v = memory_take(&d->scratch_memory, 1, sizeof *v);
    float *copy = memory_take(&d->scratch_memory, n, sizeof *copy);
    if (!v || !copy)
        return no_memory("a vector", e);
    memcpy(copy, data, n * sizeof *copy);
    v->data = copy;
    d->weight_bytes += n * sizeof *copy;
    *out = v;
    return ERR_OK;
}

bool cpu_take_buffer(struct kern_device *d, uint32_t width, struct kern_buffer *out)
{
    size_t floats = (size_t)d->max_tok * width * sizeof *out->data;
    size_t blocks = tile_slots(d, d->max_tok) * (width / QUANT) * sizeof(struct quant_block);
    *out = (struct kern_buffer){
        .width = width,
        .data = memory_take(&d->scratch_memory, floats > blocks ? floats : blocks, 1)};
    return out->data;
}

static int cpu_buffer(struct kern_device *d, uint32_t width, struct kern_buffer **out,
                      struct err *e)
{
    struct kern_buffer *b = memory_take(&d->scratch_memory, 1, sizeof *b);
    if (!b || !cpu_take_buffer(d, width, b))
        return no_memory("activations", e);
    *out = b;
    return ERR_OK;
}

static int cpu_run(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    (void)e;
    team_run(d->team, body, arg);
    return ERR_OK;
}

static void cpu_each(struct kern_device *d, uint32_t n,
                     void (*fn)(void *arg, uint32_t i, uint32_t thread), void *arg)
{
    team_each_item(d->team, n, fn, arg);
}

static void cpu_write(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n)
{
    team_join(d->team);
    b->n_quant = 0;
    memcpy(b->data, src, (size_t)n * b->width * sizeof *src);
}

static void cpu_read(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n)
{
    team_join(d->team);
    for (uint32_t t = 0; t < n; t++)
        cpu_row(d, b, t, dst + (size_t)t * b->width);
}

const struct kern_ops KERN_CPU = {
    .name = "cpu",
    .summary = "AVX-512, AVX-VNNI, AVX2 or plain C, chosen at start",
    .open = cpu_open,
    .close = cpu_close,
    .n_threads = cpu_n_threads,
    .weight_bytes = cpu_weight_bytes,
    .matrix = cpu_matrix,
    .vector = cpu_vector,
    .buffer = cpu_buffer,
    .kv = cpu_kv,
    .kv_block_bytes = cpu_kv_block_bytes,
    .mixer = cpu_mixer,
    .run = cpu_run,
    .each = cpu_each,
    .copy_blocks = cpu_copy_blocks,
    .begin = cpu_begin,
    .embed = cpu_embed,
    .project = cpu_project,
    .project_add = cpu_project_add,
    .add_norm = cpu_add_norm,
    .gate_up = cpu_gate_up,
    .mix = cpu_mix,
    .mix_up = cpu_mix_up,
    .mix_down = cpu_mix_down,
    .add = cpu_add,
    .attention = cpu_attention,
    .head = cpu_head,
    .write = cpu_write,
    .read = cpu_read,
};
