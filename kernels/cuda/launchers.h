/* kernels/cuda/launchers.h - what the .cu files export to table.cu; in a namespace of their
 * compiler, so that both builds fit in one program. */
#ifndef KERNELS_CUDA_LAUNCHERS_H
#define KERNELS_CUDA_LAUNCHERS_H

#include "kernels/cuda/dialect.h"
#include "kernels/cuda/kernels.h"

namespace KERNEL_SPACE
{
/* A token, or the one that a row of the step before drew (kern_step.token). */
__device__ __forceinline__ int32_t token_of(int32_t token, const kern_drawn *before)
{
    return token < 0 ? before[-1 - token].token : token;
}

void launch_split(const product_args *a, dev_stream *s);
void launch_group(const group_args *a, dev_stream *s);
void launch_product_mma(const product_args *a, dev_stream *s);
void launch_product_fused(const product_args *a, dev_stream *s);
void launch_experts_fused(const experts_args *e, dev_stream *s);
void launch_experts_mma(const experts_args *e, dev_stream *s);
void launch_product(const product_args *a, dev_stream *s);
void launch_product_of_experts(const experts_args *a, dev_stream *s);
void launch_route(const route_args *a, dev_stream *s);
void launch_combine(const combine_args *a, dev_stream *s);
void launch_add(const add_args *a, dev_stream *s);
void launch_embed(const embed_args *a, dev_stream *s);
void launch_add_norm(const add_norm_args *a, dev_stream *s);
void launch_gate(const gate_args *a, dev_stream *s);
void launch_heads(const heads_args *a, dev_stream *s);
void launch_attend(const attend_args *a, dev_stream *s);
void launch_prompt(const attend_args *a, dev_stream *s);
bool launch_prompt_wgmma(const attend_args *a, dev_stream *s);
void launch_draw(const draw_args *a, dev_stream *s);
void launch_sum_of_peers(const peers_ranks *a, dev_stream *s);
void launch_plain(const product_args *a, dev_stream *s);
void launch_unpack(const unpack_args *a, dev_stream *s);
} // namespace KERNEL_SPACE

#endif
