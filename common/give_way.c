/* Nice value and time slice of one thread, both read by Linux's fair scheduler only: a thread with
 * another policy keeps it. Children inherit them: sched(7). A LONG slice is what gives way: it puts
 * the deadline off, and a thread that wakes up with a shorter one (the default is 3 ms) preempts at
 * once; else it may wait for the next tick, 4 ms (kernel/sched/fair.c, PREEMPT_SHORT; Stoica and
 * Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995). */
#include "common/give_way.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE = 10, SLICE_NS = 100 * 1000 * 1000 }; /* 100 ms: the most there is */

/* Of sched_setattr(2); its header does not go together with libc's <sched.h>. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void give_way(void)
{
    const struct scheduling s = {.size = sizeof s, .nice = NICE, .runtime_ns = SLICE_NS};
    (void)syscall(SYS_sched_setattr, 0, &s, 0);
}
