/* kernels/route.h - which experts a token uses, on the host. Pure. */
#ifndef KERNELS_ROUTE_H
#define KERNELS_ROUTE_H

#include "kernels/ops.h"

enum { ROUTE_MAX_EXPERTS = 1024, ROUTE_MAX_USED = 32 };

/* score: [n_expert], what the router says; expert and weight: [n_used], by rising number. A score
 * that is no number counts as the lowest. */
void route_token(const struct kern_mix_shape *s, const float *score, uint32_t *expert,
                 float *weight);

#endif
