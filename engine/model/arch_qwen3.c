/* Qwen3, dense (arXiv 2505.09388): no bias, but a norm with weights on every head of q and k. */
#include "engine/model/decoder.h"

static const struct decoder_traits TRAITS = {
    .pairs_halves = true, .has_head_norms = true, .gate = KERN_GATE_SILU};

static int qwen3_load(struct model *m, const struct gguf *g, struct err *e)
{
    return decoder_load(m, g, &TRAITS, e);
}

const struct model_arch ARCH_QWEN3 = {"qwen3", qwen3_load, decoder_forward};
