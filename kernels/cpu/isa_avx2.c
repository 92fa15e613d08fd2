/* The inner loops for AVX2, FMA and F16C; compiled with those flags, so nothing here may run before
 * CPUID was asked. Pure functions; any thread. */
#if defined(__x86_64__)
#include "kernels/cpu/isa.h"

#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/dot_avx2.h"

#include "kernels/cpu/body_rows.h"

#include "kernels/cpu/quantise_each.h"

#include "kernels/cpu/body_quantise.h"

#include "kernels/cpu/body_unpack.h"

#include "kernels/cpu/body_tile.h"

#include "kernels/cpu/body_store.h"

#include "kernels/cpu/body_packed.h"

#include "kernels/cpu/body_one.h"

#include "kernels/cpu/body_chunk.h"

#include "kernels/cpu/body_product.h"

#include "kernels/cpu/body_kv.h"

#define ATTEND_SUMS 4
#include "kernels/cpu/body_score.h"

#include "kernels/cpu/body_attend.h"

const struct cpu_isa ISA_AVX2 = {"avx2",     STRIP_GROUPS,  TILE_GROUPS,     TILE_TOKENS,
                                 row_norm,   rows_quantise, blocks_quantise, rows_product,
                                 row_rotate, ATTEND_TABLE};
#endif
