/* Qwen3 with mixtures of experts (arXiv 2505.09388): as Qwen3, and in each layer a token uses the
 * best experts of the router, with weights that sum to 1 (norm_topk_prob of all released models).
 */
#include "engine/model/decoder.h"

static const struct decoder_traits TRAITS = {
    .pairs_halves = true, .has_head_norms = true, .gate = KERN_GATE_SILU};

static int qwen3moe_load(struct model *m, const struct gguf *g, struct err *e)
{
    return decoder_load(m, g, &TRAITS, e);
}

const struct model_arch ARCH_QWEN3MOE = {"qwen3moe", qwen3moe_load, decoder_forward};
