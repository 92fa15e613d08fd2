/* The shared memory: making, mapping, and waiting on it with a futex that all processes see. */
#include "kernels/comm/area.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_PAUSES = 1000 }; /* about 35 us where a pause takes 35 ns: an exchange's own length */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

size_t comm_area_bytes(uint32_t size)
{
    return sizeof(struct comm_area) + (size_t)size * 2 * COMM_WINDOW_BYTES;
}

int comm_area_make(uint32_t size, char id[COMM_ID_BYTES], struct err *e)
{
    int fd = memfd_create("milepost-ranks", 0); /* inherited: the other ranks are our children */
    if (fd < 0 || ftruncate(fd, (off_t)comm_area_bytes(size)) != 0)
        return err_set_sys(e, ERR_NOMEM, errno, "ranks: %zu bytes of shared memory",
                           comm_area_bytes(size));
    snprintf(id, COMM_ID_BYTES, "shm:%d", fd);
    return ERR_OK;
}

int comm_area_map(const char *id, uint32_t size, struct comm_area **out, struct err *e)
{
    char *end;
    struct stat st;
    if (strncmp(id, "shm:", 4) != 0)
        return err_set(e, ERR_INVALID, "ranks: id '%.40s': shm:DESCRIPTOR is expected", id);
    long fd = strtol(id + 4, &end, 10);
    if (end == id + 4 || *end || fd < 0 || fd > INT_MAX || fstat((int)fd, &st) != 0 ||
        (size_t)st.st_size != comm_area_bytes(size))
        return err_set(e, ERR_INVALID,
                       "ranks: id '%.40s' names no shared memory of %u ranks: it is made by rank 0 "
                       "and inherited",
                       id, size);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (p == MAP_FAILED)
        return err_set_sys(e, ERR_NOMEM, errno, "ranks: mapping %zu bytes", (size_t)st.st_size);
    *out = p;
    return ERR_OK;
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    (void)syscall(SYS_futex, (uint32_t *)word, op, value, timeout, NULL, 0);
}

void comm_area_ring(struct comm_area *a)
{
    if (atomic_load(&a->sleepers) == 0)
        return;
    atomic_fetch_add(&a->bell, 1);
    futex(&a->bell, FUTEX_WAKE, INT_MAX, NULL);
}

void comm_area_break(struct comm_area *a, const char *why)
{
    uint32_t whole = 0;
    if (!atomic_compare_exchange_strong(&a->broken, &whole, 1))
        return;
    snprintf(a->why, sizeof a->why, "%s", why);
    atomic_store(&a->broken, 2);
    atomic_fetch_add(&a->bell, 1);
    futex(&a->bell, FUTEX_WAKE, INT_MAX, NULL);
}

void comm_area_announce(struct comm_area *a, uint32_t rank, const struct comm_call *call)
{
    struct comm_announced *to = &a->seat[rank].announced[call->turn % COMM_ANNOUNCED];
    atomic_store(&to->turn_plus_1, 0);
    to->call = *call;
    atomic_store(&to->turn_plus_1, call->turn + 1);
}

bool comm_area_announced(struct comm_area *a, uint32_t rank, uint64_t turn, struct comm_call *out)
{
    struct comm_announced *from = &a->seat[rank].announced[turn % COMM_ANNOUNCED];
    if (atomic_load(&from->turn_plus_1) != turn + 1)
        return false;
    *out = from->call;
    return atomic_load(&from->turn_plus_1) == turn + 1; /* it was not overwritten meanwhile */
}

static bool has_arrived(const struct comm_area *a, uint32_t seat, uint32_t want)
{
    return (int32_t)(atomic_load(&a->seat[seat].arrived) - want) >= 0;
}

static bool is_over(const struct comm_area *a, uint32_t seat, uint32_t want)
{
    return has_arrived(a, seat, want) || atomic_load(&a->broken) == 2;
}

bool comm_area_wait(struct comm_area *a, uint32_t seat, uint32_t want, uint32_t timeout_ms)
{
    for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
        if (is_over(a, seat, want))
            return has_arrived(a, seat, want);
        pause_cpu();
    }
    const struct timespec timeout = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    atomic_fetch_add(&a->sleepers, 1);
    /* Bell before state: an arrival in between changes the bell, and the futex does not sleep. */
    uint32_t bell = atomic_load(&a->bell);
    if (timeout_ms && !is_over(a, seat, want))
        futex(&a->bell, FUTEX_WAIT, bell, &timeout);
    atomic_fetch_sub(&a->sleepers, 1);
    return has_arrived(a, seat, want);
}
