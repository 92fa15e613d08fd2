/* ldmatrix and mma.m16n8k16 by the register layouts of the PTX ISA (9.7.14.5.8, 9.7.14.5.15):
 * lane l holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, as pairs of 16 bits. */
#include "kernels/simt/machine.h"

namespace simt
{

void ldmatrix_body(void **calls, uint32_t)
{
    uint16_t row[LANES][8];
    thread *self = m.self;
    for (int l = 0; l < LANES; l++) {
        const void *p = ((ldmatrix_call *)calls[l])->row;
        m.self = m.now->warps[self->warp].lane[l];
        if ((uintptr_t)p & 15)
            report("ldmatrix row not 16-byte aligned");
        if (m.is_checked)
            access(p, 16, false, m.self->where);
        memcpy(row[l], p, 16);
    }
    m.self = self;
    for (int l = 0; l < LANES; l++) {
        ldmatrix_call *c = (ldmatrix_call *)calls[l];
        for (int j = 0; j < 4; j++) {
            int r = l / 4, k = l % 4 * 2;
            uint16_t low = c->is_transposed ? row[8 * j + k][r] : row[8 * j + r][k];
            uint16_t high = c->is_transposed ? row[8 * j + k + 1][r] : row[8 * j + r][k + 1];
            c->out[j] = low | (uint32_t)high << 16;
        }
    }
}

static float half_of(unsigned pair, int i)
{
    return to_float(bf16{(uint16_t)(pair >> (16 * i))});
}

void mma_body(void **calls, uint32_t)
{
    float a[16][16], b[8][16];
    for (int l = 0; l < LANES; l++) {
        const mma_call *c = (const mma_call *)calls[l];
        int g = l / 4, t = l % 4 * 2;
        for (int i = 0; i < 2; i++) {
            a[g][t + i] = half_of(c->a[0], i);
            a[g + 8][t + i] = half_of(c->a[1], i);
            a[g][t + 8 + i] = half_of(c->a[2], i);
            a[g + 8][t + 8 + i] = half_of(c->a[3], i);
            b[g][t + i] = half_of(c->b[0], i);
            b[g][t + 8 + i] = half_of(c->b[1], i);
        }
    }
    for (int l = 0; l < LANES; l++) {
        mma_call *c = (mma_call *)calls[l];
        for (int e = 0; e < 4; e++) {
            const float *row = a[l / 4 + e / 2 * 8], *column = b[l % 4 * 2 + e % 2];
            float sum = c->d[e];
            for (int k = 0; k < 16; k++)
                sum += row[k] * column[k];
            c->d[e] = sum;
        }
    }
}

} // namespace simt
