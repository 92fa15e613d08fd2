/* tests/kernels/simt/fake_nccl.h - an NCCL that moves nothing and counts what it is asked, loaded
 * by kernels/comm/nccl.c in place of the library: what that file does around NCCL needs no device.
 */
#ifndef TESTS_KERNELS_SIMT_FAKE_NCCL_H
#define TESTS_KERNELS_SIMT_FAKE_NCCL_H

#include <stdbool.h>
#include <stdint.h>

struct fake_nccl {
    uint32_t n_calls, n_aborts; /* calls: collectives, sends and receives */
    bool has_failed;            /* what ncclCommGetAsyncError tells */
};

/* Of this process. */
struct fake_nccl *fake_nccl(void);

#endif
