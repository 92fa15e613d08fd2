/* kernels/cuda/peers.h - what the ranks of a sum over peer pointers give each other (peers.cu). */
#ifndef KERNELS_CUDA_PEERS_H
#define KERNELS_CUDA_PEERS_H

#include <stdint.h>

enum { MAX_PEERS = 8, PEER_BLOCKS = 32 };

/* A rank's side of a sum over ranks: x[t] += sum over r of part[r][t], then y[t] = norm(x[t]). */
struct peers_args {
    const float *part[MAX_PEERS]; /* [n_tok, width] of each rank, in its memory; two in turn */
    unsigned *flag[MAX_PEERS]; /* [PEER_BLOCKS][MAX_PEERS] in each rank's memory; zeros at first */
    float *x;
    const float *norm;                   /* [width] */
    float *y;                            /* NULL: only the sum */
    uint32_t rank, n_rank, width, n_tok; /* width: a multiple of 4 */
    uint32_t turn;                       /* one more than at the last call, from 1 */
    float eps;
};
/* n_here: ranks whose side this launch computes, on one device; all others' launches must come. */
struct peers_ranks {
    uint32_t n_here;
    struct peers_args rank[MAX_PEERS];
};

#endif
