/* engine/model/decoder.h - the pre-norm transformer with grouped-query attention, rotary positions
 * and a gated feed-forward layer (arXiv 2302.13971, 2305.13245, 2104.09864, 2002.05202) that the
 * arch_*.c files describe. Shapes come from the file, the rest from struct decoder_traits. */
#ifndef ENGINE_MODEL_DECODER_H
#define ENGINE_MODEL_DECODER_H

#include "engine/model/arch.h"
#include "engine/model/weights.h"

enum { DECODER_MAX_HEAD = 1024 };

/* What the architecture fixes. */
struct decoder_traits {
    bool pairs_halves;   /* the file pairs rotated dimensions half a head apart, else neighbours */
    bool has_qkv_bias;   /* attn_{q,k,v}.bias */
    bool has_head_norms; /* attn_{q,k}_norm: RMSNorm of each head before it is rotated */
    bool has_post_norms; /* post_attention_norm, post_ffw_norm: of a block before it is added */
    bool scales_embedding; /* by sqrt(d_model) */
    bool scales_by_width;  /* scores by 1 / sqrt(d_model / n_head), else by 1 / sqrt(d_head) */
    enum kern_gate gate;
    uint32_t window_period;  /* every so many layers the last sees all, the others a window; 0: no
                                windows. The file's attention.sliding_window_pattern goes first */
    double window_rope_base; /* of layers with a window, as rope.freq_base_swa */
};

struct decoder_layer {
    const struct kern_vector *attn_norm, *ffn_norm, *attn_post_norm, *ffn_post_norm;
    const struct kern_matrix *qkv, *output;
    const struct kern_matrix *gate_up, *down; /* NULL: experts */
    struct kern_experts experts;
    struct kern_attn_layer attention;
};

/* What of the model this rank computes (tensor parallelism, arXiv 1909.08053): whole KV heads with
 * their query heads, rows of gate and up, of the vocabulary, and of the matrices that end a block
 * (output, down). Alone: all. Of those, ranks that join on their devices have all rows and the
 * columns that go with their heads and rows (in whole blocks of the file), and sum; others have
 * rows over all columns, so that each is summed, and its input rounded, as by one process. */
struct decoder_share {
    struct weights_span head, head_kv, ff, vocab, model;
    bool has_rows;
    bool has_heads; /* false: computes heads that are another rank's, and gives nothing of them */
};

struct decoder {
    struct decoder_traits traits;
    struct decoder_share share;
    const struct kern_matrix *embedding, *head;
    const struct kern_vector *output_norm;
    struct kern_buffer *x, *qkv, *attended, *hidden, *block;
    struct kern_buffer *all_attended, *all_hidden, *part; /* has_rows: of all ranks; of block */
    struct kern_mixer *mixer;                             /* NULL: no experts */
    const struct kern_matrix **matrix; /* of all experts: gate_up and down, layer by layer */
    struct kern_attn_shape attention;
    float eps, embedding_scale;
    double inv_freq[KERN_MAX_ROPES][DECODER_MAX_HEAD / 2];
    struct decoder_layer layer[];
};

/* As load and forward of struct model_arch. */
MUST_USE int decoder_load(struct model *m, const struct gguf *g,
                          const struct decoder_traits *traits, struct err *e);
void decoder_forward(struct model *m, const struct model_batch *b, float *logits);

/* decoder_shape.c: the numbers of the metadata, to m->info; then this rank's share of them and
 * those of attention, to a decoder of that many layers. */
MUST_USE int decoder_read_shape(struct model *m, const struct gguf *g, struct err *e);
MUST_USE int decoder_read_share(struct model *m, const struct gguf *g, struct decoder *d,
                                struct err *e);
MUST_USE int decoder_read_attention(struct model *m, const struct gguf *g, struct decoder *d,
                                    struct err *e);

#endif
