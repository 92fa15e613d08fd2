/* The inner loops in plain C, for machines without AVX2. Pure functions; any thread. */
#include "kernels/cpu/isa.h"

#include "kernels/cpu/vec_plain.h"

#include "kernels/cpu/dot_plain.h"

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

#define ATTEND_SUMS 2
#include "kernels/cpu/body_score.h"

#include "kernels/cpu/body_attend.h"

const struct cpu_isa ISA_PLAIN = {"plain",    STRIP_GROUPS,  TILE_GROUPS,     TILE_TOKENS,
                                  row_norm,   rows_quantise, blocks_quantise, rows_product,
                                  row_rotate, ATTEND_TABLE};
