/* kernels/mix.h - the gate of a feed-forward layer, and mixtures of experts (ops.h). Pure data. */
#ifndef KERNELS_MIX_H
#define KERNELS_MIX_H

#include <stdbool.h>
#include <stdint.h>

struct kern_matrix;

enum kern_gate { KERN_GATE_SILU, KERN_GATE_GELU }; /* the tanh form (arXiv 1606.08415, section 2) */

/* Mixture of experts (arXiv 2101.03961, 2401.04088): a token uses n_used of n_expert. With
 * p = softmax(router x), the chosen are the n_used largest p (equal: the lower number); is_normed
 * divides their p by the sum of them. */
struct kern_mix_shape {
    uint32_t n_expert, n_used, d_model, d_ff; /* d_ff: of one expert, the most of its matrices */
    bool is_normed;
    enum kern_gate gate;
};
struct kern_experts {
    const struct kern_matrix *router;         /* [n_expert, d_model], float32 */
    const struct kern_matrix *const *gate_up; /* [n_expert], each as in gate_up */
    const struct kern_matrix *const *down;    /* [n_expert] of [d_model, d_ff] */
};

#endif
