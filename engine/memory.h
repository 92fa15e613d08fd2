/* engine/memory.h - how much memory this process may use. Start-up only. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdint.h>

/* The machine's memory, or the least limit of the cgroups (version 2) this process is in. Bytes. */
uint64_t memory_usable_bytes(void);

#endif
