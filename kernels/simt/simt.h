/* kernels/simt/simt.h - controls of the emulator, for tests and for the backend `simt`.
 *
 * The emulator runs the kernels of kernels/cuda on this machine, one at a time, one fiber a CUDA
 * thread. It reports what a GPU would do wrong silently: races, accesses out of bounds, to freed or
 * never written memory, misaligned ones, missing fences and waits, divergent barriers, deadlocks.
 * The memory checks need kernels compiled with -fsanitize=thread (simt_is_checked). Not for several
 * OS threads at once: kernels/simt/dev_simt.cc takes a lock. */
#ifndef KERNELS_SIMT_SIMT_H
#define KERNELS_SIMT_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In which order threads and blocks run. Forward and reverse put each pair of conflicting accesses
 * between two barriers in both orders; greedy lets one warp run as far ahead as it can. */
enum simt_order {
    SIMT_FORWARD,
    SIMT_REVERSE,
    SIMT_GREEDY_FORWARD,
    SIMT_GREEDY_REVERSE,
    SIMT_SHUFFLED /* this and above: seeds of a shuffle */
};
enum { SIMT_ORDERS = 6 }; /* 0 to 5: all kinds, two shuffles */

void simt_set_order(unsigned order);
/* Reports since the last call; *first (NULL: not wanted) gets the first one's text. */
unsigned simt_take_reports(char *first, size_t n);
void simt_set_quiet(bool is_quiet); /* quiet: reports are kept, not printed */
bool simt_is_checked(void);
/* The n-th launch from now fails and, like a GPU after a fault, everything after it (ERR_DEVICE of
 * sync and open). 0: never, and the device works again. Programs: SIMT_FAIL_LAUNCH=n. */
void simt_fail_launch(uint64_t n);
/* Device memory there is; 0: the machine's. Programs: SIMT_MEMORY_MIB=n. */
void simt_set_memory(size_t bytes);

/* Device memory that several processes see at the same addresses, as devices see their peers'.
 * share: before the processes are forked and before any allocation (false: too late, or no memory).
 * take: in each process, its own 256 MB of it. Accesses to others' are not checked. */
bool simt_share_heap(unsigned n_ranks);
void simt_take_slice(unsigned rank);

unsigned simt_count_launches(void); /* of kernels, since the program began */

/* What the kernels' accesses to [p, p + bytes) would cost, from log_begin to log_end: a request is
 * one instruction of one warp; memory moves in sectors of 32 bytes, each once a request. */
struct simt_traffic {
    uint64_t requests, asked_bytes, sector_bytes;
};
void simt_log_begin(void);
void simt_log_end(void);
struct simt_traffic simt_log_traffic(const void *p, size_t bytes, bool is_write);
/* One line a place in the source: bytes a lane, sectors or bank passes a request, and the ideal. */
void simt_log_print(const char *title);
/* The most bank passes over ideal, and the least useful share of sectors, of any place. */
struct simt_waste {
    double bank_ratio, sector_ratio;
};
struct simt_waste simt_log_waste(void);

#ifdef __cplusplus
}
#endif
#endif
