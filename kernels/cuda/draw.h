/* kernels/cuda/draw.h - the arguments of the kernel that draws tokens (draw.cu). */
#ifndef KERNELS_CUDA_DRAW_H
#define KERNELS_CUDA_DRAW_H

#include "kernels/draw.h"

#include <stddef.h>

/* A row's kern_draw; its tokens begin at `first` of the history. */
struct draw_row {
    float scale, repetition;
    uint32_t is_skipped, top_k, n_top, has_penalties, first, n_prompt, n_output;
    double presence, frequency, top_p, min_p, u;
};

enum { DRAW_BLOCK = 256 }; /* logits summed together, as SOFTMAX_BLOCK of the host */

struct draw_args {       /* rows of one call; scratch is a row's, one after the other */
    const float *logits; /* [n_row, n_vocab] */
    const struct draw_row *row;
    const int32_t *history;          /* below zero: as kern_step.token */
    const struct kern_drawn *before; /* rows of the step before */
    struct kern_drawn *out;          /* [n_row]; skipped rows are not written */
    float *weight;                   /* [n_row, n_vocab] */
    unsigned long long *key;         /* [n_row, n_vocab] */
    uint32_t *count;                 /* [n_row, n_vocab], zero before and after */
    float *most;                     /* [n_row, blocks of n_vocab] */
    double *sum;                     /* the same */
    uint32_t n_vocab, n_row;
};

struct draw_stage {            /* what head_draw works with */
    uint32_t n_vocab, max_row; /* 0: no room was asked for */
    uint32_t n_last;           /* rows of the last head_draw */
    const size_t *part;        /* logits of each rank; NULL: alone */
    float *parts, *joined;     /* [LOGITS_ROWS, n_vocab] rank after rank; row after row */
    struct draw_args on_device;
};

#endif
