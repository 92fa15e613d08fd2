/* kernels/cpu/memory.h - memory that lives as long as the device. Zeroed, aligned to 64 bytes;
 * pages become resident when touched: huge ones for what is walked from end to end, small ones for
 * what is sized for the largest step and seldom all used. One owner. */
#ifndef KERNELS_CPU_MEMORY_H
#define KERNELS_CPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct memory_chunk;
struct memory {
    struct memory_chunk *chunks; /* the newest first */
    bool has_small_pages;
};

/* count * size bytes, NULL when there are none (or on overflow). */
void *memory_take(struct memory *m, size_t count, size_t size);
void memory_free(struct memory *m);

#endif
