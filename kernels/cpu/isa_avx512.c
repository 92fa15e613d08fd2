/* The inner loops for AVX-512 F, BW, DQ, VL and VNNI; compiled with those flags, so nothing here
 * may run before CPUID was asked. Pure functions; any thread. */
#if defined(__x86_64__)
#include "kernels/cpu/isa.h"

#include "kernels/cpu/vec_avx512.h"

/* Of more tokens the weights ahead go to the second cache, as on Intel's cores it was best while
 * whole groups were fetched ahead; not measured since it is a chunk (body_chunk.h). */
enum { NEAR_TOKENS = 1 };

#include "kernels/cpu/dot_avx512.h"

#include "kernels/cpu/body_rows.h"

#include "kernels/cpu/quantise_avx512.h"

#include "kernels/cpu/body_quantise.h"

#include "kernels/cpu/body_unpack.h"

#include "kernels/cpu/body_tile.h"

#include "kernels/cpu/body_store.h"

#include "kernels/cpu/body_packed.h"

#include "kernels/cpu/body_one.h"

#include "kernels/cpu/body_chunk.h"

#include "kernels/cpu/body_product.h"

#include "kernels/cpu/body_kv.h"

#define ATTEND_SUMS 24
#include "kernels/cpu/body_score.h"

#include "kernels/cpu/body_attend.h"

const struct cpu_isa ISA_AVX512 = {"avx512",   STRIP_GROUPS,  TILE_GROUPS,     TILE_TOKENS,
                                   row_norm,   rows_quantise, blocks_quantise, rows_product,
                                   row_rotate, ATTEND_TABLE};
#endif
