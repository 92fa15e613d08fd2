/* Weights from the file's blocks into groups of 16 rows. 4-bit formats keep their values: Q4_0 and
 * Q4_1 to the bit, Q4_K with its sub-block scales multiplied out to f16. Q8_0 keeps its values too.
 * Other formats are fitted with 8 bits per value and a scale and offset per 32 (error at most 1/510
 * of a unit's range, below what the int8 activations lose). */
#include "kernels/cpu/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_ALIGN = 2 << 20, TAIL = 4096 }; /* prefetch runs past the end */

struct big {
    struct big *next;
    void *p;
    size_t bytes;
};

void *cpu_big_alloc(struct kern_device *d, size_t bytes)
{
    struct big *b = arena_alloc(&d->arena, sizeof *b);
    size_t rounded;
    if (!b || __builtin_add_overflow(bytes, TAIL + PAGE_ALIGN - 1, &rounded))
        return NULL;
    b->bytes = rounded;
    b->p = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->p == MAP_FAILED)
        return NULL;
    madvise(b->p, rounded, MADV_HUGEPAGE);
    b->next = d->maps;
    d->maps = b;
    return b->p;
}

void cpu_big_free_all(struct kern_device *d)
{
    for (struct big *b = d->maps; b; b = b->next)
        munmap(b->p, b->bytes);
    d->maps = NULL;
}

struct unit { /* 32 values of one row as d q + m */
    uint16_t d, m;
    uint8_t q[UNIT];
};

static uint16_t read_half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

static void split_nibbles(const uint8_t *src, uint8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = src[i] & 15;
        q[i + 16] = src[i] >> 4;
    }
}

static void unit_from_q4_0(const uint8_t *block, uint32_t part, struct unit *out)
{
    (void)part;
    out->d = read_half(block);
    out->m = f32_to_f16(-8 * f16_to_f32(out->d));
    split_nibbles(block + 2, out->q);
}

static void unit_from_q4_1(const uint8_t *block, uint32_t part, struct unit *out)
{
    (void)part;
    out->d = read_half(block);
    out->m = read_half(block + 2);
    split_nibbles(block + 4, out->q);
}

static void unit_from_q8_0(const uint8_t *block, uint32_t part, struct unit *out)
{
    (void)part;
    out->d = read_half(block);
    out->m = f32_to_f16(-128 * f16_to_f32(out->d));
    for (int i = 0; i < UNIT; i++)
        out->q[i] = block[2 + i] ^ 0x80;
}

/* Sub-block `part` of 8 in a 256-element block; its scale and minimum have six bits each. */
static void unit_from_q4_k(const uint8_t *block, uint32_t part, struct unit *out)
{
    const uint8_t *s = block + 4, *q = block + 16 + part / 2 * 32;
    float d = f16_to_f32(read_half(block)), dmin = f16_to_f32(read_half(block + 2));
    uint32_t scale =
        part < 4 ? s[part] & 63u : (s[part + 4] & 15u) | (uint32_t)(s[part - 4] >> 6) << 4;
    uint32_t minimum =
        part < 4 ? s[part + 4] & 63u : (uint32_t)(s[part + 4] >> 4) | (uint32_t)(s[part] >> 6) << 4;
    out->d = f32_to_f16(d * (float)scale);
    out->m = f32_to_f16(-dmin * (float)minimum);
    for (int i = 0; i < UNIT; i++)
        out->q[i] = part % 2 ? q[i] >> 4 : q[i] & 15;
}

struct packer {
    uint32_t dtype;
    bool is_4bit;
    uint32_t units_per_block;
    void (*unit)(const uint8_t *block, uint32_t part, struct unit *out);
};

static const struct packer PACKERS[] = {
    {DTYPE_Q4_0, true, 1, unit_from_q4_0},
    {DTYPE_Q4_1, true, 1, unit_from_q4_1},
    {DTYPE_Q4_K, true, 8, unit_from_q4_k},
    {DTYPE_Q8_0, false, 1, unit_from_q8_0},
};

static const struct packer *find_packer(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof PACKERS / sizeof *PACKERS; i++)
        if (PACKERS[i].dtype == dtype)
            return &PACKERS[i];
    return NULL;
}

/* 8 bits between the smallest and the largest value; d and m are rounded to f16 first, so that q is
 * chosen for the numbers that will be used. */
static void fit_unit(const float *v, struct unit *out)
{
    float least = v[0], most = v[0];
    for (int i = 1; i < UNIT; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    out->m = f32_to_f16(least);
    float m = f16_to_f32(out->m);
    out->d = f32_to_f16((most - m) / 255);
    float d = f16_to_f32(out->d);
    for (int i = 0; i < UNIT; i++) {
        float q = d > 0 ? roundf((v[i] - m) / d) : 0;
        out->q[i] = (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
    }
}

static void put_unit(const struct kern_matrix *m, uint8_t *at, uint32_t lane, const struct unit *u)
{
    memcpy(at + 2 * lane, &u->d, sizeof u->d);
    memcpy(at + 32 + 2 * lane, &u->m, sizeof u->m);
    uint8_t *q = at + 64 + 4 * lane;
    for (int j = 0; j < 8; j++)
        for (int t = 0; t < 4; t++) {
            uint8_t value = u->q[4 * j + t];
            if (m->unit_bytes == UNIT8_BYTES)
                q[64 * j + t] = value;
            else if (j < 4)
                q[64 * j + t] = value;
            else
                q[64 * (j - 4) + t] = (uint8_t)(q[64 * (j - 4) + t] | value << 4);
        }
}

struct pack_job {
    struct kern_matrix *m;
    const struct kern_part *part;
    uint32_t first_group;
    size_t row_bytes;
};

static void pack_row(const struct pack_job *j, uint32_t row)
{
    const struct packer *p = find_packer(j->part->dtype);
    const uint8_t *src = (const uint8_t *)j->part->data + row * j->row_bytes;
    uint8_t *group = j->m->packed + (size_t)(j->first_group + row / LANES) * j->m->group_bytes;
    uint32_t elements;
    size_t bytes;
    (void)dtype_layout(j->part->dtype, &elements, &bytes);
    float values[256]; /* the largest block */
    uint32_t step = elements > UNIT ? elements : UNIT;
    for (uint32_t col = 0; col < j->m->cols; col += UNIT) {
        const uint8_t *block = src + col / elements * bytes;
        struct unit u;
        if (p) {
            p->unit(block, col % elements / UNIT, &u);
        } else {
            uint32_t start = col / step * step;
            if (col == start)
                dtype_to_f32(j->part->dtype, src + start / elements * bytes, values, step);
            fit_unit(values + (col - start), &u);
        }
        put_unit(j->m, group + (size_t)(col / UNIT) * j->m->unit_bytes, row % LANES, &u);
    }
}

static void pack_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct pack_job *j = arg;
    struct team_range r = team_share((j->part->rows + LANES - 1) / LANES, thread, n_threads);
    for (uint32_t row = r.from * LANES; row < r.to * LANES && row < j->part->rows; row++)
        pack_row(j, row);
}

struct pack_body {
    struct kern_device *d;
    struct pack_job job;
};

static void run_pack(void *arg)
{
    struct pack_body *b = arg;
    team_each(b->d->team, pack_part, &b->job);
}

static int place_parts(struct kern_matrix *m, const struct kern_part *parts, struct err *e)
{
    bool is_4bit = true;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const struct packer *p = find_packer(parts[i].dtype);
        uint32_t elements;
        size_t bytes;
        if (m->cols % UNIT || !dtype_layout(parts[i].dtype, &elements, &bytes) ||
            m->cols % elements)
            return err_set(e, ERR_UNSUPPORTED,
                           "backend cpu: rows of %u elements of type %s: a multiple of %d is "
                           "needed; backend ref takes any",
                           m->cols, dtype_name(parts[i].dtype), UNIT);
        is_4bit = is_4bit && p && p->is_4bit;
        m->part[i].rows = parts[i].rows;
        m->part[i].first_row = m->rows;
        m->part[i].first_group = m->n_groups;
        m->rows += parts[i].rows;
        m->n_groups += (parts[i].rows + LANES - 1) / LANES;
    }
    m->unit_bytes = is_4bit ? UNIT4_BYTES : UNIT8_BYTES;
    m->group_bytes = m->unit_bytes * (m->cols / UNIT);
    return ERR_OK;
}

int cpu_pack(struct kern_device *d, struct kern_matrix *m, const struct kern_part *parts,
             struct err *e)
{
    size_t bytes;
    int rc = place_parts(m, parts, e);
    if (rc != ERR_OK)
        return rc;
    m->packed = size_mul(m->group_bytes, m->n_groups, &bytes) ? cpu_big_alloc(d, bytes) : NULL;
    if (!m->packed)
        return err_set(e, ERR_NOMEM, "backend cpu: no memory for a matrix of %u x %u", m->rows,
                       m->cols);
    d->weight_bytes += bytes;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        uint32_t elements;
        size_t block_bytes;
        (void)dtype_layout(parts[i].dtype, &elements, &block_bytes);
        struct pack_body b = {
            d, {m, &parts[i], m->part[i].first_group, m->cols / elements * block_bytes}};
        team_run(d->team, run_pack, &b);
    }
    return ERR_OK;
}

void cpu_unpack_row(const struct kern_matrix *m, uint32_t row, float *out)
{
    uint32_t part = 0;
    while (row >= m->part[part].rows)
        row -= m->part[part++].rows;
    const uint8_t *unit =
        m->packed + (size_t)(m->part[part].first_group + row / LANES) * m->group_bytes;
    uint32_t lane = row % LANES;
    for (uint32_t col = 0; col < m->cols; col += UNIT, unit += m->unit_bytes) {
        float d = f16_to_f32(read_half(unit + 2 * lane));
        float offset = f16_to_f32(read_half(unit + 32 + 2 * lane));
        const uint8_t *q = unit + 64 + 4 * lane;
        for (uint32_t i = 0; i < UNIT; i++) {
            uint32_t at = 64 * (i / 4) + i % 4;
            uint8_t value = m->unit_bytes == UNIT8_BYTES ? q[at]
                            : i < 16                     ? q[at] & 15
                                                         : q[at - 256] >> 4;
            out[col + i] = d * (float)value + offset;
        }
    }
}
