/* tests/kernels/simt/defects.h - small kernels, each right as it stands and wrong in one way when
 * asked: what the emulator must report, and must not. */
#ifndef TESTS_KERNELS_SIMT_DEFECTS_H
#define TESTS_KERNELS_SIMT_DEFECTS_H

#include "kernels/cuda/dev.h"

enum defect_seen {
    DEFECT_SEEN_BY_ALL,   /* a report, or wrong values, in some order of the fast build */
    DEFECT_SEEN_BY_CHECK, /* only where memory accesses are watched */
    DEFECT_OUT_OF_BOUNDS  /* by check; AddressSanitizer ends the process */
};

struct defect {
    const char *name, *says; /* says: part of the check build's report */
    enum defect_seen seen;
    bool (*run)(struct dev_stream *s, int is_planted); /* true: the values are right */
};

#ifdef __cplusplus
extern "C"
#endif
    const struct defect *
    defect_at(unsigned i); /* NULL past the end */

#endif
