/* The table of all kernels of this build. */
#include "kernels/cuda/launchers.h"

#ifdef __CUDACC__
#define TABLE KERNELS_CUDA
#else
#define TABLE KERNELS_SIMT
#endif

using namespace KERNEL_SPACE;

extern "C" const struct device_kernels TABLE = {
    launch_split,        launch_group,  launch_product, launch_product_of_experts, launch_route,
    launch_combine,      launch_add,    launch_embed,   launch_add_norm,           launch_gate,
    launch_heads,        launch_attend, launch_prompt,  launch_prompt_wgmma,       launch_draw,
    launch_sum_of_peers, launch_plain,  launch_unpack,
};
