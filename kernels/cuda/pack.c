/* GGUF blocks taken apart into the streams of a panel (kernels.h): the same bits in another order,
 * never more of them, so that lanes can load 16 bytes side by side; but bf16 as fp8 where that is
 * asked for. Layouts of the blocks: ggml's
 * ggml-common.h, as in kernels/dtype.c. */
#include "kernels/cuda/device.h"
#include "kernels/fp8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, SUPER = 256, UNIT_BYTES = 16, LANES = 4 };

/* What each lane of a quad gets of 32 columns (tile.h): four columns and the four 16 further. */
struct lane_parts {
    uint8_t low[LANES][16], high[LANES][2];
    uint32_t low_bytes, high_bytes; /* of a lane */
};

struct streams { /* of one block of the file, elements in their order */
    uint8_t *low, *high, *scale, *super;
};

struct packing {
    uint32_t dtype, format, elements, bytes; /* of a block of the file */
    uint32_t low, high, scale, super;        /* bytes of a block in each stream */
    uint32_t unit, pad;                      /* elements of 16 bytes of low; units of a row: whole
                                                multiples of pad */
    uint32_t group;                          /* blocks of 32 in a group of tile.h; 0: none */
    uint32_t row_scale;                      /* bytes of a row's own scale */
    void (*pack)(const uint8_t *src, struct streams to);
    void (*place)(const uint8_t *low, const uint8_t *high, struct lane_parts *to);
};

/* low[i] and high[i], i below 16, hold elements i and i + 16 in their low nibble or high nibble. */
static void put_halves(const uint8_t *q, uint8_t *low)
{
    for (int i = 0; i < BLOCK; i += 2) {
        int a = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
        int b = i < 16 ? q[i + 1] & 15 : q[i - 15] >> 4;
        low[i / 2] = (uint8_t)(a | b << 4);
    }
}

static void pack_q4_0(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 2);
    put_halves(src + 2, to.low);
}

static void pack_q4_1(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 4);
    put_halves(src + 4, to.low);
}

static void pack_q5_0(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 2);
    memcpy(to.high, src + 2, 4);
    put_halves(src + 6, to.low);
}

static void pack_q5_1(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 4);
    memcpy(to.high, src + 4, 4);
    put_halves(src + 8, to.low);
}

static void pack_q8_0(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 2);
    memcpy(to.low, src + 2, BLOCK);
}

/* Sub-block j of a K block: q's low nibbles for even j, its high ones for odd. */
static void put_nibbles(const uint8_t *q, int shift, uint8_t *low)
{
    for (int i = 0; i < BLOCK; i += 2)
        low[i / 2] = (uint8_t)((q[i] >> shift & 15) | (q[i + 1] >> shift & 15) << 4);
}

static void pack_q4_k(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src, 16);
    for (int j = 0; j < 8; j++)
        put_nibbles(src + 16 + j / 2 * BLOCK, j % 2 * 4, to.low + j * UNIT_BYTES);
}

static void pack_q5_k(const uint8_t *src, struct streams to)
{
    const uint8_t *high = src + 16;
    memcpy(to.scale, src, 16);
    for (int j = 0; j < 8; j++) {
        uint32_t bits = 0;
        put_nibbles(src + 48 + j / 2 * BLOCK, j % 2 * 4, to.low + j * UNIT_BYTES);
        for (int i = 0; i < BLOCK; i++)
            bits |= (uint32_t)(high[i] >> j & 1) << i;
        memcpy(to.high + j * sizeof bits, &bits, sizeof bits);
    }
}

static void pack_q6_k(const uint8_t *src, struct streams to)
{
    memcpy(to.scale, src + 192, 16);
    memcpy(to.super, src + 208, 2);
    for (int j = 0; j < 8; j++) {
        const uint8_t *low = src + 64 * (j / 4) + j % 2 * BLOCK;
        const uint8_t *high = src + 128 + BLOCK * (j / 4);
        uint64_t bits = 0;
        put_nibbles(low, j % 4 / 2 * 4, to.low + j * UNIT_BYTES);
        for (int i = 0; i < BLOCK; i++)
            bits |= (uint64_t)(high[i] >> (2 * (j % 4)) & 3) << (2 * i);
        memcpy(to.high + j * sizeof bits, &bits, sizeof bits);
    }
}

static uint32_t column_of(uint32_t lane, uint32_t i)
{
    return i / 4 * 16 + lane * 4 + i % 4;
}

/* Columns 2 p and 2 p + 1 of a lane are its nibbles p and p + 4; bits above them likewise. */
static void place_nibbles(const uint8_t *low, const uint8_t *high, struct lane_parts *to)
{
    uint32_t width = to->high_bytes;
    for (uint32_t q = 0; q < LANES; q++) {
        uint32_t word = 0, above = 0;
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t e = column_of(q, i), at = i / 2 + i % 2 * 4, bit = e * width;
            word |= (uint32_t)(low[e / 2] >> (e % 2 * 4) & 15) << (4 * at);
            if (width)
                above |= (uint32_t)(high[bit / 8] >> bit % 8 & ((1u << width) - 1)) << (width * at);
        }
        memcpy(to->low[q], &word, sizeof word);
        memcpy(to->high[q], &above, sizeof to->high[q]);
    }
}

static void place_bytes(const uint8_t *low, const uint8_t *high, struct lane_parts *to)
{
    uint32_t width = to->low_bytes / 8; /* of an element */
    (void)high;
    for (uint32_t q = 0; q < LANES; q++)
        for (uint32_t half = 0; half < 2; half++)
            memcpy(to->low[q] + half * 4 * width, low + column_of(q, 4 * half) * width, 4 * width);
}

static const struct packing PACKINGS[] = {
    {DTYPE_F32, PANEL_F32, 1, 4, 4, 0, 0, 0, 4, 1, 0, 0, NULL, NULL},
    {DTYPE_F16, PANEL_F16, 1, 2, 2, 0, 0, 0, 8, 1, 0, 0, NULL, NULL},
    {DTYPE_BF16, PANEL_BF16, 1, 2, 2, 0, 0, 0, 8, 4, 1, 0, NULL, place_bytes},
    {DTYPE_BF16, PANEL_FP8, 1, 2, 1, 0, 0, 0, 16, 2, 2, 4, NULL, place_bytes},
    {DTYPE_Q8_0, PANEL_Q8_0, 32, 34, 32, 0, 2, 0, 16, 1, 2, 0, pack_q8_0, place_bytes},
    {DTYPE_Q4_0, PANEL_Q4_0, 32, 18, 16, 0, 2, 0, 32, 1, 4, 0, pack_q4_0, place_nibbles},
    {DTYPE_Q4_1, PANEL_Q4_1, 32, 20, 16, 0, 4, 0, 32, 1, 4, 0, pack_q4_1, place_nibbles},
    {DTYPE_Q5_0, PANEL_Q5_0, 32, 22, 16, 4, 2, 0, 32, 1, 4, 0, pack_q5_0, place_nibbles},
    {DTYPE_Q5_1, PANEL_Q5_1, 32, 24, 16, 4, 4, 0, 32, 1, 4, 0, pack_q5_1, place_nibbles},
    {DTYPE_Q4_K, PANEL_Q4_K, SUPER, 144, 128, 0, 16, 0, 32, 1, 4, 0, pack_q4_k, place_nibbles},
    {DTYPE_Q5_K, PANEL_Q5_K, SUPER, 176, 128, 32, 16, 0, 32, 1, 4, 0, pack_q5_k, place_nibbles},
    {DTYPE_Q6_K, PANEL_Q6_K, SUPER, 210, 128, 64, 16, 2, 32, 1, 4, 0, pack_q6_k, place_nibbles},
};

static const struct packing *find_packing(const struct kern_device *d, uint32_t dtype)
{
    bool is_fp8 = d->has_fp8_weights && dtype == DTYPE_BF16;
    for (size_t i = 0; i < sizeof PACKINGS / sizeof *PACKINGS; i++)
        if (PACKINGS[i].dtype == dtype && (PACKINGS[i].format == PANEL_FP8) == is_fp8)
            return &PACKINGS[i];
    return NULL;
}

/* Block b of a row's n blocks of 32 columns, its lanes' parts into their pieces of its group. */
static void put_block(const struct packing *k, const uint8_t *low, const uint8_t *high, uint32_t b,
                      uint32_t n, struct streams row)
{
    struct lane_parts parts = {.low_bytes = k->low * (BLOCK / LANES) / k->elements,
                               .high_bytes = k->high * (BLOCK / LANES) / k->elements};
    uint32_t first = b / k->group * k->group, size = n - first;
    size = size < k->group ? size : k->group;
    k->place(low, high, &parts);
    for (uint32_t q = 0; q < LANES; q++) {
        uint32_t at = first * LANES + q * size + (b - first);
        memcpy(row.low + at * parts.low_bytes, parts.low[q], parts.low_bytes);
        if (parts.high_bytes)
            memcpy(row.high + at * parts.high_bytes, parts.high[q], parts.high_bytes);
    }
}

static void pack_bf16_row(const struct packing *k, const uint8_t *src, uint32_t cols,
                          struct streams to)
{
    uint32_t n = (cols + BLOCK - 1) / BLOCK;
    for (uint32_t b = 0; b < n; b++) {
        uint8_t block[BLOCK * 2] = {0};
        uint32_t left = cols - b * BLOCK;
        memcpy(block, src + (size_t)b * sizeof block, (left < BLOCK ? left : BLOCK) * 2);
        put_block(k, block, NULL, b, n, to);
    }
}

/* Bytes, and the row's step (kernels/fp8.h). */
static void pack_fp8_row(const struct packing *k, const uint8_t *src, uint32_t cols,
                         struct streams to)
{
    uint32_t n = (cols + BLOCK - 1) / BLOCK;
    const uint16_t *from = (const uint16_t *)src;
    float most = 0;
    for (uint32_t i = 0; i < cols; i++)
        most = fmaxf(most, fabsf(bf16_to_f32(from[i])));
    float step = fp8_step(most);
    memcpy(to.scale, &step, sizeof step);
    for (uint32_t b = 0; b < n; b++) {
        uint8_t block[BLOCK] = {0};
        for (uint32_t i = 0; i < BLOCK && b * BLOCK + i < cols; i++)
            block[i] = fp8_from_f32(bf16_to_f32(from[b * BLOCK + i]) / step);
        put_block(k, block, NULL, b, n, to);
    }
}

static void pack_row(const struct packing *k, const uint8_t *src, uint32_t cols, struct streams to)
{
    uint32_t n = cols / BLOCK, b = 0;
    if (!k->pack) {
        if (k->row_scale)
            pack_fp8_row(k, src, cols, to);
        else if (k->place)
            pack_bf16_row(k, src, cols, to);
        else
            memcpy(to.low, src, (size_t)cols * k->bytes);
        return;
    }
    for (uint32_t i = 0; i < cols / k->elements; i++) {
        uint8_t low[SUPER / 2], high[SUPER / 4];
        k->pack(src, (struct streams){low, high, to.scale, to.super});
        for (uint32_t j = 0; j < k->elements / BLOCK; j++, b++)
            put_block(k, low + j * k->low * BLOCK / k->elements,
                      high + j * k->high * BLOCK / k->elements, b, n, to);
        src += k->bytes;
        to.scale += k->scale;
        to.super += k->super;
    }
}

/* One stream: host memory, then the device's. row: the one being packed; zeroed, since rows of
 * floats are padded. */
struct stream {
    uint8_t *host, *row;
    void *device;
    size_t row_bytes, bytes, group_bytes;
};

static bool open_stream(struct kern_device *d, struct stream *s, size_t row_bytes, uint32_t rows)
{
    if (row_bytes == 0)
        return true;
    s->row_bytes = row_bytes;
    if (!size_mul(row_bytes, rows, &s->bytes))
        return false;
    s->host = malloc(s->bytes);
    s->row = calloc(1, row_bytes);
    s->device = s->host && s->row ? device_take(d, s->bytes, 1) : NULL;
    return s->device != NULL;
}

static bool open_streams(struct kern_device *d, const struct packing *k, const struct panel *p,
                         struct stream s[4])
{
    size_t blocks = p->cols / k->elements, group = k->group;
    s[0].group_bytes = group * k->low * BLOCK / k->elements;
    s[1].group_bytes = group * k->high * BLOCK / k->elements;
    s[2].group_bytes = group * k->scale * BLOCK / k->elements;
    if (k->elements == SUPER && !k->super)
        s[2].group_bytes = k->scale; /* a header for all */
    s[3].group_bytes = k->super;
    return open_stream(d, &s[0], (size_t)p->units * UNIT_BYTES, p->rows) &&
           open_stream(d, &s[1], k->high * blocks, p->rows) &&
           open_stream(d, &s[2], k->scale * blocks + k->row_scale, p->rows) &&
           open_stream(d, &s[3], k->super * blocks, p->rows);
}

/* Eight rows stand together, group after group (tile.h: place_of). */
static void put_row(const struct stream *s, uint32_t row, uint32_t rows)
{
    uint32_t first = row & ~(TILE_EIGHT - 1), n = rows - first;
    size_t group = s->group_bytes ? s->group_bytes : s->row_bytes;
    n = n < TILE_EIGHT ? n : TILE_EIGHT;
    if (!s->group_bytes) {
        first = row;
        n = 1;
    }
    for (size_t at = 0; at < s->row_bytes; at += group) {
        size_t size = s->row_bytes - at < group ? s->row_bytes - at : group;
        memcpy(s->host + first * s->row_bytes + at * n + (row - first) * size, s->row + at, size);
    }
}

/* Rows of `n` parts of one type to the panel's streams. */
static int pack_panel(struct kern_device *d, const struct packing *k, struct panel *p,
                      const struct kern_part *parts, uint32_t n, struct err *e)
{
    struct stream s[4] = {0};
    uint32_t blocks = p->cols / k->elements, row = 0;
    int rc = ERR_OK;
    bool ok = open_streams(d, k, p, s);
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint8_t *src = parts[i].data;
        for (uint32_t r = 0; r < parts[i].rows; r++, row++, src += (size_t)blocks * k->bytes) {
            pack_row(k, src, p->cols, (struct streams){s[0].row, s[1].row, s[2].row, s[3].row});
            for (int j = 0; j < 4; j++)
                put_row(&s[j], row, p->rows);
        }
    }
    for (int i = 0; i < 4; i++) {
        if (ok && s[i].host && rc == ERR_OK)
            rc = device_upload(d, s[i].device, s[i].host, s[i].bytes, e);
        free(s[i].host);
        free(s[i].row);
        d->weight_bytes += s[i].bytes;
    }
    if (!ok)
        return device_no_memory(d, "weights", e);
    p->low = s[0].device;
    p->high = s[1].device;
    p->scale = s[2].device;
    p->super = s[3].device;
    return rc;
}

static int open_panel(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                      uint32_t n, struct panel *p, struct err *e)
{
    const struct packing *k = find_packing(d, parts->dtype);
    if (!k || cols % k->elements)
        return err_set(e, ERR_UNSUPPORTED, "backend %s: rows of %u elements of type %s",
                       d->dev->name, cols, dtype_name(parts->dtype));
    *p = (struct panel){.format = k->format, .cols = cols};
    p->units = (cols + k->unit * k->pad - 1) / (k->unit * k->pad) * k->pad;
    for (uint32_t i = 0; i < n; i++)
        p->rows += parts[i].rows;
    return pack_panel(d, k, p, parts, n, e);
}

/* Room for what steps with this matrix need: split activations, logits, and gate and up that are
 * not one panel. */
static bool grow_scratch(struct kern_device *d, const struct kern_matrix *m)
{
    if (m->rows > d->logits_width) {
        d->logits = device_take(d, (size_t)LOGITS_ROWS * m->rows, sizeof *d->logits);
        d->logits_width = m->rows;
    }
    if (m->n_panels > 1 && m->rows > d->both_width) {
        d->both = device_take(d, (size_t)d->max_tok * m->rows, sizeof *d->both);
        d->both_width = m->rows;
    }
    return d->logits && (m->n_panels == 1 || d->both) && device_split_room(d, d->max_tok, m->cols);
}

int device_matrix(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                  uint32_t n_parts, const struct kern_matrix **out, struct err *e)
{
    int rc = ERR_OK;
    struct kern_matrix *m = arena_alloc(&d->arena, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "backend %s: no memory for a matrix", d->dev->name);
    *m = (struct kern_matrix){.cols = cols};
    for (uint32_t i = 0, n; i < n_parts && rc == ERR_OK; i += n, m->n_panels++) {
        for (n = 1; i + n < n_parts && parts[i + n].dtype == parts[i].dtype; n++)
            continue;
        m->first_row[m->n_panels] = m->rows;
        rc = open_panel(d, cols, parts + i, n, &m->panel[m->n_panels], e);
        m->rows += m->panel[m->n_panels].rows;
    }
    if (rc == ERR_OK && !grow_scratch(d, m))
        rc = err_set(e, ERR_NOMEM, "backend %s: no memory for results of %u rows", d->dev->name,
                     m->rows);
    *out = m;
    return rc;
}
