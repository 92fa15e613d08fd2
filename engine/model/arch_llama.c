/* Llama 1 to 3, SmolLM2, Mistral 7B and others whose files call themselves llama. The converter has
 * put the rows of q and k in the order in which rotated pairs are neighbours. Mistral's sliding
 * window of version 0.1 is not in its files: attention sees all positions. Mixtral calls itself
 * llama too and says how many experts it has (arXiv 2401.04088). */
#include "engine/model/decoder.h"

static const struct decoder_traits TRAITS = {.gate = KERN_GATE_SILU};

static int llama_load(struct model *m, const struct gguf *g, struct err *e)
{
    return decoder_load(m, g, &TRAITS, e);
}

const struct model_arch ARCH_LLAMA = {"llama", llama_load, decoder_forward};
