/* kernels/simt/ptx_host.h - the host bodies of the wrappers of kernels/cuda/ptx.h, which includes
 * it. */
#ifndef KERNELS_SIMT_PTX_HOST_H
#define KERNELS_SIMT_PTX_HOST_H

namespace simt
{
struct ldmatrix_call {
    const void *row;
    unsigned *out;
    bool is_transposed;
};
struct mma_call {
    float *d;
    const unsigned *a, *b;
};
void ldmatrix_body(void **calls, uint32_t mask);
void mma_bf16_body(void **calls, uint32_t mask);
void mma_f16_body(void **calls, uint32_t mask);
void copy16(void *dst, const void *src, const void *device, bool is_write);
void load8(void *dst, const void *src);
unsigned load_acquire(const unsigned *p);
void store_release(unsigned *p, unsigned v);
void copy_async(void *shared, const void *global, int bytes, int valid);
void copy_commit();
void copy_wait(int keep);
void launch_wait();
} // namespace simt

/* Out of line: a host compiler would split them into words, which spoils the statistics. */
static inline uint4 ld128(const void *p)
{
    uint4 v;
    simt::copy16(&v, p, p, false);
    return v;
}

static inline uint4 ld128_stream(const void *p)
{
    uint4 v;
    simt::copy16(&v, p, p, false);
    return v;
}

static inline uint2 ld64(const void *p)
{
    uint2 v;
    simt::load8(&v, p);
    return v;
}

static inline void st128(void *p, uint4 v)
{
    simt::copy16(p, &v, p, true);
}

static inline unsigned ld_acquire(const unsigned *p)
{
    return simt::load_acquire(p);
}

static inline unsigned ld_acquire_system(const unsigned *p)
{
    return simt::load_acquire(p);
}

static inline void st_release_system(unsigned *p, unsigned v)
{
    simt::store_release(p, v);
}

static inline void cp_async16(void *shared, const void *global, int valid)
{
    simt::copy_async(shared, global, 16, valid);
}

static inline void cp_async_commit()
{
    simt::copy_commit();
}

template <int KEEP> static inline void cp_async_wait()
{
    simt::copy_wait(KEEP);
}

static inline void grid_wait()
{
    simt::launch_wait();
}

static inline void grid_release() {}

static inline void simt_ldmatrix(unsigned (&r)[4], const void *row, bool is_transposed,
                                 const simt::site *at)
{
    simt::ldmatrix_call call = {row, r, is_transposed};
    simt::warp_call(~0u, simt::ldmatrix_body, &call, at);
}

static inline void simt_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                            simt::collective_fn *body, const simt::site *at)
{
    simt::mma_call call = {d, a, b};
    simt::warp_call(~0u, body, &call, at);
}

#define ldmatrix_x4(r, row)       simt_ldmatrix(r, row, false, SIMT_HERE)
#define ldmatrix_x4_trans(r, row) simt_ldmatrix(r, row, true, SIMT_HERE)
#define mma_bf16(d, a, b)         simt_mma(d, a, b, simt::mma_bf16_body, SIMT_HERE)
#define mma_f16(d, a, b)          simt_mma(d, a, b, simt::mma_f16_body, SIMT_HERE)

#endif
