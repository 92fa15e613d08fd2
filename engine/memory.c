/* A container's limit counts, not the host's memory: past it the kernel ends the process.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html, "memory.max". */
#include "engine/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_line(const char *path, char *line, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, (int)size, f);
    if (f)
        fclose(f);
    return ok;
}

/* "max" or bytes; UINT64_MAX without a limit. */
static uint64_t group_limit(const char *group)
{
    char path[512], line[64] = "", *rest;
    int n = snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    if (n < 0 || (size_t)n >= sizeof path || !read_line(path, line, sizeof line))
        return UINT64_MAX;
    unsigned long long bytes = strtoull(line, &rest, 10);
    return rest == line || bytes == 0 ? UINT64_MAX : bytes;
}

uint64_t memory_usable_bytes(void)
{
    char line[384] = "";
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char *group = line;
    if (read_line("/proc/self/cgroup", line, sizeof line) && strncmp(line, "0::/", 4) == 0)
        group = line + 3;
    else
        line[0] = '\0';
    group[strcspn(group, "\n")] = '\0';
    for (char *last;; *last = '\0') {
        uint64_t limit = group_limit(strcmp(group, "/") == 0 ? "" : group);
        least = limit < least ? limit : least;
        last = strrchr(group, '/');
        if (!last)
            return least;
    }
}
