/* Gemma 3, text (arXiv 2503.19786): five layers with a window, then one that sees all; norms of q
 * and k and after each block; a GELU gate; scaled embeddings. The converter adds the one of Gemma's
 * (1 + weight) norms to the weights. Soft-capped logits belong to Gemma 2 and are refused. */
#include "engine/model/decoder.h"

#include "engine/model/weights.h"

enum { LAYERS_OF_27B = 62 };

static int gemma3_load(struct model *m, const struct gguf *g, struct err *e)
{
    struct decoder_traits traits = {.pairs_halves = true,
                                    .has_head_norms = true,
                                    .has_post_norms = true,
                                    .scales_embedding = true,
                                    .gate = KERN_GATE_GELU,
                                    .window_period = 6,
                                    .window_rope_base = 10000};
    uint32_t n_layer = 0;
    double cap = 0;
    int rc;
    TRY(weights_u32(g, "gemma3", "block_count", (struct weights_range){0, 1 << 20, false}, &n_layer,
                    e));
    traits.scales_by_width = n_layer == LAYERS_OF_27B; /* query_pre_attn_scalar 168, of no key */
    rc = weights_real(g, "gemma3", "final_logit_softcapping", (struct weights_range){0, 0, false},
                      &cap, e);
    if (rc != ERR_OK)
        return err_wrap(e, "soft-capped logits are not supported");
    TRY(decoder_load(m, g, &traits, e));
out:
    return rc;
}

const struct model_arch ARCH_GEMMA3 = {"gemma3", gemma3_load, decoder_forward};
