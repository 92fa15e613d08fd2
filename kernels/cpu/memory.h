/* kernels/cpu/memory.h - memory in huge pages that lives as long as the device. Zeroed, aligned to
 * 64 bytes; pages become resident when touched. One owner. */
#ifndef KERNELS_CPU_MEMORY_H
#define KERNELS_CPU_MEMORY_H

#include <stddef.h>

struct memory_chunk;
struct memory {
    struct memory_chunk *chunks; /* the newest first */
};

/* count * size bytes, NULL when there are none (or on overflow). */
void *memory_take(struct memory *m, size_t count, size_t size);
void memory_free(struct memory *m);

#endif
