/* kernels/draw.h - a token from a row of logits, drawn on the device that computed the row
 * (kern_ops.head_draw), by the rules and with the numbers of engine/sample/sampler.h.
 *
 * Weights exp((logit - largest) * scale) are those of engine/sample/softmax.c bit by bit; sums of
 * them are taken in double, in another order. So the token is the host's unless u times the sum
 * falls within 1e-12 of it between two tokens, or top_p's limit does (near tie). Pure data, for C
 * and for kernels. */
#ifndef KERNELS_DRAW_H
#define KERNELS_DRAW_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAW_MAX_TOP = 20, DRAW_MAX_VOCAB = 1 << 20 };
enum { DRAW_MAX_HISTORY = 1 << 20 }; /* tokens of a step's penalties */

struct kern_draw {
    bool on_host;     /* no draw: the row's logits are wanted */
    float scale;      /* 1 / temperature; 0: the largest logit wins, the lower id on ties */
    uint32_t top_k;   /* 0: off */
    uint32_t n_top;   /* best logits to report, at most DRAW_MAX_TOP and n_vocab */
    float repetition; /* 1: off. Penalties as engine/sample/penalties.h */
    double presence, frequency, top_p, min_p; /* 0, 0, 1, 0: off */
    double u;                                 /* of [0, 1): decides */
    const int32_t *tokens;                    /* prompt, then output, as kern_step.token; NULL:
                                                 no penalties */
    uint32_t n_prompt, n_output;
};

/* ln p(token) = logit - (largest + ln(total)). total is not finite when the row is broken. */
struct kern_drawn {
    int32_t token;        /* -1: see the row's logits */
    float logit, largest; /* of the row without penalties, as all below */
    uint32_t n_top;
    double total;              /* sum of exp(logit - largest) */
    int32_t top[DRAW_MAX_TOP]; /* [n_top] best first, lower id on ties */
    float top_logit[DRAW_MAX_TOP];
};

#endif
