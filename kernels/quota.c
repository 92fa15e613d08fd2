/* /proc/self/cgroup names our group in each hierarchy, "NUMBER:CONTROLLERS:PATH". v2 has number 0
 * and no controllers; v1 is looked for at the usual mount of the controller cpu. In a container
 * without a namespace of its own the path is the host's and leads nowhere below our mount: what is
 * not there sets no limit, and the walk up ends at the mount itself, which is the container's. */
#include "kernels/quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 1024, MAX_LINE = 512 };

static bool read_line(const char *root, const char *directory, const char *group, const char *name,
                      char *line, int bytes)
{
    char path[MAX_PATH];
    int n = snprintf(path, sizeof path, "%s%s%s/%s", root, directory, group, name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    bool is_read = f && fgets(line, bytes, f) != NULL;
    if (f)
        fclose(f);
    return is_read;
}

static uint32_t whole_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    return quota < period ? 1 : (uint32_t)(quota / period);
}

/* cpu.max: "QUOTA PERIOD" or "max PERIOD". */
static uint32_t group_cores_v2(const char *root, const char *group)
{
    char line[64], *rest;
    if (!read_line(root, "/sys/fs/cgroup", group, "cpu.max", line, sizeof line))
        return 0;
    long long quota = strtoll(line, &rest, 10);
    return whole_cores(quota, strtoll(rest, NULL, 10));
}

/* A quota of -1 is none. */
static uint32_t group_cores_v1(const char *root, const char *group)
{
    char quota[64], period[64];
    const char *directory = "/sys/fs/cgroup/cpu";
    if (!read_line(root, directory, group, "cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line(root, directory, group, "cpu.cfs_period_us", period, sizeof period))
        return 0;
    return whole_cores(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

typedef uint32_t (*group_fn)(const char *root, const char *group);

static uint32_t tighter(uint32_t a, uint32_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* Of the group and those above it; shortens the text. */
static uint32_t least_upwards(const char *root, char *group, group_fn cores)
{
    uint32_t least = 0;
    for (char *last; (last = strrchr(group, '/')); *last = '\0')
        if (last[1]) /* "/" is the mount, looked at below */
            least = tighter(cores(root, group), least);
    return tighter(cores(root, ""), least);
}

static bool has_cpu(const char *controllers)
{
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

/* A line of /proc/self/cgroup. */
static uint32_t hierarchy_cores(const char *root, char *line)
{
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *controllers++ = '\0';
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(line, "0") == 0 && !*controllers)
        return least_upwards(root, group, group_cores_v2);
    return has_cpu(controllers) ? least_upwards(root, group, group_cores_v1) : 0;
}

uint32_t quota_cores(const char *root)
{
    char path[MAX_PATH], line[MAX_LINE];
    uint32_t least = 0;
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (!f)
        return group_cores_v2(root, "");
    while (fgets(line, sizeof line, f))
        least = tighter(hierarchy_cores(root, line), least);
    fclose(f);
    return least;
}
