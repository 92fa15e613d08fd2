/* Repacking of a tensor into groups of 16 rows (panel.h). All keep their values exactly but Q6_K,
 * whose scales cover 16 columns: it is quantised anew to eight bits per 32. */
#include "kernels/cpu/device.h"

#include <math.h>
#include <string.h>

enum { SUPER = SUPER_BLOCKS * QUANT };

/* 32 columns of one row, on their way into a panel; m only of layouts with an offset; what d and m
 * are taken times only where eight blocks have them together. */
struct block {
    float d, m;
    uint8_t d_times, m_times;
    uint8_t q[QUANT];
};

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

static void split_nibbles(const uint8_t *src, uint8_t q[QUANT])
{
    for (int i = 0; i < 16; i++) {
        q[i] = src[i] & 15;
        q[i + 16] = src[i] >> 4;
    }
}

static void read_q4_0(const uint8_t *src, uint32_t at, struct block *b)
{
    src += at * 18;
    b->d = half_at(src);
    split_nibbles(src + 2, b->q);
}

static void read_q4_1(const uint8_t *src, uint32_t at, struct block *b)
{
    src += at * 20;
    b->d = half_at(src);
    b->m = half_at(src + 2);
    split_nibbles(src + 4, b->q);
}

static void add_fifth_bits(const uint8_t *src, uint8_t q[QUANT])
{
    uint32_t high;
    memcpy(&high, src, sizeof high);
    for (int i = 0; i < QUANT; i++)
        q[i] |= (uint8_t)((high >> i & 1) << 4);
}

static void read_q5_0(const uint8_t *src, uint32_t at, struct block *b)
{
    src += at * 22;
    b->d = half_at(src);
    split_nibbles(src + 6, b->q);
    add_fifth_bits(src + 2, b->q);
}

static void read_q5_1(const uint8_t *src, uint32_t at, struct block *b)
{
    src += at * 24;
    b->d = half_at(src);
    b->m = half_at(src + 2);
    split_nibbles(src + 8, b->q);
    add_fifth_bits(src + 4, b->q);
}

static void read_q8_0(const uint8_t *src, uint32_t at, struct block *b)
{
    src += at * 34;
    b->d = half_at(src);
    for (int i = 0; i < QUANT; i++)
        b->q[i] = src[2 + i] ^ 0x80;
}

/* Six-bit scale and minimum of sub-block j, as in kernels/dtype.c. */
static void read_k_scales(const uint8_t *src, uint32_t j, struct block *b)
{
    const uint8_t *p = src + 4;
    int d_times = j < 4 ? p[j] & 63 : (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
    int m_times = j < 4 ? p[j + 4] & 63 : (p[j + 4] >> 4) | (p[j] >> 6) << 4;
    b->d_times = (uint8_t)d_times;
    b->m_times = (uint8_t)m_times;
    b->d = half_at(src);
    b->m = -half_at(src + 2);
}

static void read_q4_k(const uint8_t *src, uint32_t at, struct block *b)
{
    uint32_t j = at % (SUPER / QUANT);
    src += at / (SUPER / QUANT) * 144;
    read_k_scales(src, j, b);
    for (int i = 0; i < QUANT; i++)
        b->q[i] = (uint8_t)(src[16 + j / 2 * QUANT + i] >> (4 * (j % 2)) & 15);
}

static void read_q5_k(const uint8_t *src, uint32_t at, struct block *b)
{
    uint32_t j = at % (SUPER / QUANT);
    src += at / (SUPER / QUANT) * 176;
    read_k_scales(src, j, b);
    for (int i = 0; i < QUANT; i++)
        b->q[i] = (uint8_t)((src[48 + j / 2 * QUANT + i] >> (4 * (j % 2)) & 15) |
                            (src[16 + i] >> j & 1) << 4);
}

static void read_q6_k(const uint8_t *src, uint32_t at, struct block *b)
{
    float value[SUPER], largest = 0;
    dtype_to_f32(DTYPE_Q6_K, src + at / (SUPER / QUANT) * 210, value, SUPER);
    const float *x = value + at % (SUPER / QUANT) * QUANT;
    for (int i = 0; i < QUANT; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    b->d = f16_to_f32(f32_to_f16(largest / 127));
    for (int i = 0; i < QUANT; i++) {
        float q = b->d > 0 ? rintf(x[i] / b->d) : 0;
        q = q > 127 ? 127 : q >= -127 ? q : -127; /* d rounded down may give 128; NaN -127 */
        b->q[i] = (uint8_t)(128 + (int)q);
    }
}

static const struct reader {
    uint32_t dtype;
    enum panel_layout layout;
    void (*read)(const uint8_t *row, uint32_t block,
                 struct block *b); /* NULL: elements as they are */
} READERS[] = {
    {DTYPE_Q4_0, PANEL_4, read_q4_0},
    {DTYPE_Q4_1, PANEL_4_OFFSET, read_q4_1},
    {DTYPE_Q4_K, PANEL_4_SUPER, read_q4_k},
    {DTYPE_Q5_0, PANEL_5, read_q5_0},
    {DTYPE_Q5_1, PANEL_5_OFFSET, read_q5_1},
    {DTYPE_Q5_K, PANEL_5_SUPER, read_q5_k},
    {DTYPE_Q8_0, PANEL_8, read_q8_0},
    {DTYPE_Q6_K, PANEL_8, read_q6_k},
    {DTYPE_F32, PANEL_F32, NULL},
    {DTYPE_F16, PANEL_F16, NULL},
    {DTYPE_BF16, PANEL_BF16, NULL},
};

static const struct reader *find_reader(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof READERS / sizeof *READERS; i++)
        if (READERS[i].dtype == dtype)
            return &READERS[i];
    return NULL;
}

static void put_half(uint8_t *at, float v)
{
    uint16_t h = f32_to_f16(v);
    memcpy(at, &h, sizeof h);
}

/* Panels are written here only. */
static uint8_t *writable(const uint8_t *p)
{
    return (uint8_t *)(uintptr_t)p;
}

static size_t block_at(const struct panel *p, uint32_t at)
{
    return panel_block_at(p->layout, p->strip_groups, at);
}

/* Block `at` of a row: d and, 32 bytes on, m; what they are taken times, LANES apart; its first
 * word. */
static const uint8_t *scale_at(const struct panel *p, uint32_t row, uint32_t at)
{
    const uint8_t *d =
        panel_has_super(p->layout)
            ? panel_super(p, row / LANES) + panel_super_at(p->layout, p->strip_groups, at)
            : panel_scales(p, row / LANES) + block_at(p, at);
    return d + 2 * (row % LANES);
}

static const uint8_t *times_at(const struct panel *p, uint32_t row, uint32_t at)
{
    return panel_scales(p, row / LANES) + block_at(p, at) + row % LANES;
}

static const uint8_t *word_at(const struct panel *p, uint32_t row, uint32_t at)
{
    return panel_words(p, row / LANES) + block_at(p, at) + 4 * (row % LANES);
}

static void write_scales(const struct panel *p, uint32_t row, uint32_t at, const struct block *b)
{
    uint8_t *scales = writable(scale_at(p, row, at)), *times = writable(times_at(p, row, at));
    put_half(scales, b->d);
    if (panel_has_offset(p->layout))
        put_half(scales + 32, b->m);
    if (panel_has_super(p->layout)) {
        times[0] = b->d_times;
        times[LANES] = b->m_times;
    }
}

static void write_block(const struct panel *p, uint32_t row, uint32_t at, const struct block *b)
{
    uint8_t *out = writable(word_at(p, row, at));
    bool has_nibbles = panel_has_nibbles(p->layout);
    write_scales(p, row, at, b);
    for (int i = 0; i < (has_nibbles ? 16 : QUANT); i++) {
        int byte = has_nibbles ? (b->q[i] & 15) | b->q[i + 16] << 4 : b->q[i];
        out[i / 4 * WORD_BYTES + i % 4] = (uint8_t)byte;
    }
    for (int i = 0; panel_has_fifths(p->layout) && i < 4; i++) {
        int byte = 0;
        for (int j = 0; j < QUANT / 4; j++)
            byte |= (b->q[4 * j + i] >> 4) << j;
        out[FIFTHS_AT + i] = (uint8_t)byte;
    }
}

static size_t element_bytes(enum panel_layout l)
{
    return l == PANEL_F32 ? sizeof(float) : sizeof(uint16_t);
}

static void pack_row(const struct panel *p, const struct reader *r, const uint8_t *src,
                     uint32_t row)
{
    uint8_t *group = writable(panel_words(p, row / LANES));
    uint32_t lane = row % LANES;
    size_t bytes = element_bytes(p->layout);
    for (uint32_t i = 0; r->read && i < p->cols / QUANT; i++) {
        struct block b;
        r->read(src, i, &b);
        write_block(p, row, i, &b);
    }
    for (uint32_t i = 0; !r->read && i < p->cols; i++)
        memcpy(group + ((size_t)i * LANES + lane) * bytes, src + i * bytes, bytes);
}

static void set_sizes(struct panel *p)
{
    size_t n_blocks = p->cols / QUANT;
    size_t group_bytes = panel_is_quantised(p->layout) ? n_blocks * panel_mean_bytes(p->layout)
                                                       : p->cols * LANES * element_bytes(p->layout);
    p->strip_bytes = p->strip_groups * group_bytes;
    p->pair_step = 2 * group_bytes;
}

int cpu_panel_shape(const struct cpu_isa *isa, const struct kern_part *part, uint32_t cols,
                    struct panel *out, struct err *e)
{
    const struct reader *r = find_reader(part->dtype);
    uint32_t elements;
    size_t block_bytes;
    if (!r || !dtype_layout(part->dtype, &elements, &block_bytes) || cols % elements)
        return err_set(e, ERR_UNSUPPORTED, "backend cpu: rows of %u elements of type %s", cols,
                       dtype_name(part->dtype));
    *out = (struct panel){
        .layout = r->layout, .rows = part->rows, .cols = cols, .strip_groups = isa->strip_groups};
    out->n_groups = (part->rows + LANES - 1) / LANES;
    set_sizes(out);
    return ERR_OK;
}

void cpu_pack_groups(const struct panel *p, const struct kern_part *part, uint32_t from,
                     uint32_t to)
{
    uint32_t elements = 1;
    size_t block_bytes = 0;
    (void)dtype_layout(part->dtype, &elements, &block_bytes);
    size_t row_bytes = p->cols / elements * block_bytes;
    const struct reader *r = find_reader(part->dtype);
    uint32_t end = to * LANES < p->rows ? to * LANES : p->rows;
    for (uint32_t row = from * LANES; row < end; row++)
        pack_row(p, r, (const uint8_t *)part->data + row * row_bytes, row);
}

/* A row's integer of a column; q: its first word of the block. */
static int integer_at(enum panel_layout l, const uint8_t *q, int i)
{
    bool has_nibbles = panel_has_nibbles(l);
    int column = has_nibbles ? i % 16 : i, byte = q[column / 4 * WORD_BYTES + column % 4];
    if (has_nibbles)
        byte = i < 16 ? byte & 15 : byte >> 4;
    if (panel_has_fifths(l))
        byte |= (q[FIFTHS_AT + i % 4] >> (i / 4) & 1) << 4;
    return byte;
}

static void unpack_block(const struct panel *p, uint32_t row, uint32_t at, float *dst)
{
    const uint8_t *scales = scale_at(p, row, at), *q = word_at(p, row, at);
    const uint8_t *times = times_at(p, row, at);
    float middle = panel_has_fifths(p->layout) ? 16 : panel_has_nibbles(p->layout) ? 8 : 128;
    float d = half_at(scales), m = panel_has_offset(p->layout) ? half_at(scales + 32) : -d * middle;
    if (panel_has_super(p->layout)) {
        d *= times[0];
        m *= times[LANES];
    }
    for (int i = 0; i < QUANT; i++)
        dst[i] = d * (float)integer_at(p->layout, q, i) + m;
}

static void unpack_floats(const struct panel *p, uint32_t row, float *dst)
{
    const uint8_t *group = panel_words(p, row / LANES);
    static const uint32_t TYPES[PANEL_LAYOUTS] = {
        [PANEL_F32] = DTYPE_F32, [PANEL_F16] = DTYPE_F16, [PANEL_BF16] = DTYPE_BF16};
    size_t bytes = element_bytes(p->layout);
    for (uint32_t i = 0; i < p->cols; i++)
        dtype_to_f32(TYPES[p->layout], group + ((size_t)i * LANES + row % LANES) * bytes, dst + i,
                     1);
}

void cpu_unpack_row(const struct panel *p, uint32_t row, float *dst)
{
    if (!panel_is_quantised(p->layout))
        unpack_floats(p, row, dst);
    for (uint32_t i = 0; panel_is_quantised(p->layout) && i < p->cols / QUANT; i++)
        unpack_block(p, row, i, dst + i * QUANT);
}
