/* Copies that complete later, at their worst: the target holds NaN from the issue of a cp.async to
 * the wait that completes it, so that a missing wait shows on every run. */
#include "kernels/simt/machine.h"

namespace simt
{

void copy16(void *dst, const void *src, const void *device, bool is_write)
{
    if (m.is_checked)
        access(device, 16, is_write, __builtin_return_address(0));
    memcpy(dst, src, 16);
}

void load8(void *dst, const void *src)
{
    if (m.is_checked)
        access(src, 8, false, __builtin_return_address(0));
    memcpy(dst, src, 8);
}

void copy_async(void *shared, const void *global, int bytes, int valid)
{
    const char *pc = (const char *)__builtin_return_address(0);
    if (m.is_checked) {
        access(shared, (size_t)bytes, true, pc + 1); /* a request of its own in the statistics */
        if (valid)
            access(global, (size_t)valid, false, pc);
    }
    memset(shared, 0xFF, (size_t)bytes);
    m.self->copies.push_back({shared, global, bytes, valid, m.self->copy_group});
}

void copy_commit()
{
    m.self->copy_group++;
}

/* Lands all but the last `keep` groups. */
void copy_wait(int keep)
{
    thread *self = m.self;
    size_t n = 0;
    for (; n < self->copies.size(); n++) {
        const copy_op &c = self->copies[n];
        if (c.group + (unsigned)keep >= self->copy_group)
            break;
        if (m.is_checked)
            access(c.dst, (size_t)c.bytes, true, __builtin_return_address(0));
        memcpy(c.dst, c.src, (size_t)c.valid);
        memset((char *)c.dst + c.valid, 0, (size_t)(c.bytes - c.valid));
    }
    self->copies.erase(self->copies.begin(), self->copies.begin() + (long)n);
}

} // namespace simt
