/* The inner loops of isa_avx512.c for cores with four vector units, of which two multiply and
 * others shift (AMD's Zen 4 and 5); compiled with the same flags. Pure functions; any thread. */
#if defined(__x86_64__)
#define OTHER_UNITS_SHIFT 1
#include "kernels/cpu/isa.h"

#include "kernels/cpu/vec_avx512.h"

/* Weights ahead go to the first cache, whatever the number of tokens: into the second one 32 tokens
 * of SmolLM2 take 4% longer. */
enum { NEAR_TOKENS = 1 << 30 };

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

const struct cpu_isa ISA_AVX512ZEN = {"avx512zen", STRIP_GROUPS,  TILE_GROUPS,     TILE_TOKENS,
                                      row_norm,    rows_quantise, blocks_quantise, rows_product,
                                      row_rotate,  ATTEND_TABLE};
#endif
