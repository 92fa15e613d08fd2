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

/* One rounding for the sum of the sixteen products and d, so that their order does not matter: much
 * as tensor cores do it (arXiv 2511.10909). A row of d at a time, which the compiler turns into
 * vectors. */
static void multiply(const double (&a)[16][16], const double (&b)[16][8], double (&d)[16][8])
{
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            for (int c = 0; c < 8; c++)
                d[r][c] += a[r][k] * b[k][c];
}

template <class T> static void mma_body(void **calls)
{
    double a[16][16], b[16][8], d[16][8];
    for (int l = 0; l < LANES; l++) {
        const mma_call *c = (const mma_call *)calls[l];
        int g = l / 4, t = l % 4 * 2;
        for (int i = 0; i < 2; i++) {
            auto half = [i](unsigned pair) {
                return (double)to_float(T{(uint16_t)(pair >> (16 * i))});
            };
            a[g][t + i] = half(c->a[0]);
            a[g + 8][t + i] = half(c->a[1]);
            a[g][t + 8 + i] = half(c->a[2]);
            a[g + 8][t + 8 + i] = half(c->a[3]);
            b[t + i][g] = half(c->b[0]);
            b[t + 8 + i][g] = half(c->b[1]);
            d[g][t + i] = c->d[i];
            d[g + 8][t + i] = c->d[2 + i];
        }
    }
    multiply(a, b, d);
    for (int l = 0; l < LANES; l++)
        for (int e = 0; e < 4; e++)
            ((mma_call *)calls[l])->d[e] = (float)d[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2];
}

void mma_bf16_body(void **calls, uint32_t)
{
    mma_body<bf16>(calls);
}

void mma_f16_body(void **calls, uint32_t)
{
    mma_body<f16>(calls);
}

} // namespace simt
