/* tests/kernels/simt/device.h - which device the suites of this folder run on: the emulator, or
 * where tests/gpu compiles them with TEST_ON_CUDA a real one, which has its own order of threads
 * and reports nothing. A suite that includes this header and no other of kernels/simt runs on both.
 */
#ifndef TESTS_KERNELS_SIMT_DEVICE_H
#define TESTS_KERNELS_SIMT_DEVICE_H

#include "kernels/cuda/dev.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops.h"

#ifdef TEST_ON_CUDA

#define TEST_BACKEND          "cuda"
#define TEST_KERN             KERN_CUDA
#define TEST_DEV              DEV_CUDA
#define TEST_KERNELS          KERNELS_CUDA
#define SIMT_ORDERS           1
#define SIMT_FORWARD          0
#define SIMT_SHUFFLED         0
#define simt_set_order(order) ((void)(order))
#define simt_is_checked()     false

unsigned simt_count_launches(void); /* of the emulator, which is there as well */

static inline unsigned simt_take_reports(char *first, size_t n)
{
    if (n)
        first[0] = '\0';
    return 0;
}

#else

#include "kernels/simt/simt.h"

#define TEST_BACKEND "simt"
#define TEST_KERN    KERN_SIMT
#define TEST_DEV     DEV_SIMT
#define TEST_KERNELS KERNELS_SIMT

#endif
#endif
