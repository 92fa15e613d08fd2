/* kernels/quota.h - how much processor time a control group leaves us. */
#ifndef KERNELS_QUOTA_H
#define KERNELS_QUOTA_H

#include <stdint.h>

/* Whole cores, at least 1, of the tightest CPU quota among our control group and those above it;
 * 0: none is set. cgroup v2 and v1 (the Linux kernel's admin-guide/cgroup-v2 and
 * scheduler/sched-bwc). Reads some small files below root: "", or another one for tests. */
uint32_t quota_cores(const char *root);

#endif
