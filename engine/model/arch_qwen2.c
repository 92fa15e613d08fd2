/* Qwen2 and Qwen2.5 (arXiv 2407.10671): a bias on q, k and v. Long contexts by YaRN are not
 * supported and refused when the file asks for them. */
#include "engine/model/decoder.h"

static const struct decoder_traits TRAITS = {
    .pairs_halves = true, .has_qkv_bias = true, .gate = KERN_GATE_SILU};

static int qwen2_load(struct model *m, const struct gguf *g, struct err *e)
{
    return decoder_load(m, g, &TRAITS, e);
}

const struct model_arch ARCH_QWEN2 = {"qwen2", qwen2_load, decoder_forward};
