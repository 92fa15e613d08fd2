/* Quotas from files as the kernel writes them, below a directory of our own. */
#include "common/test.h"

#include "kernels/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 6 };

struct file {
    const char *path, *text;
};

static void remove_file(const char *root, const struct file *f)
{
    char path[256];
    int n = snprintf(path, sizeof path, "%s/%s", root, f->path);
    assert_true(n > 0 && (size_t)n < sizeof path);
    unlink(path);
    while (strlen(path) > strlen(root)) { /* folders that are empty now */
        *strrchr(path, '/') = '\0';
        if (rmdir(path) != 0)
            return;
    }
}

static void write_file(const char *root, const struct file *f)
{
    char path[256];
    int n = snprintf(path, sizeof path, "%s/%s", root, f->path);
    assert_true(n > 0 && (size_t)n < sizeof path);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(f->text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void check(const struct file *files, uint32_t want)
{
    char root[] = "/tmp/milepost_quota_test.XXXXXX";
    assert_non_null(mkdtemp(root));
    for (const struct file *f = files; f->path; f++)
        write_file(root, f);
    uint32_t got = quota_cores(root);
    for (const struct file *f = files; f->path; f++)
        remove_file(root, f);
    rmdir(root);
    if (got != want)
        fail_msg("%u cores, not %u, where %s says %s", got, want, files[0].path, files[0].text);
}

#define GROUP "proc/self/cgroup"
#define V2    "sys/fs/cgroup/"
#define V1    "sys/fs/cgroup/cpu/"

static void test_v2(void **state)
{
    static const struct file CASES[][MAX_FILES] = {
        {{GROUP, "0::/\n"}, {V2 "cpu.max", "250000 100000\n"}},
        {{GROUP, "0::/a/b\n"},
         {V2 "a/b/cpu.max", "max 100000\n"},
         {V2 "a/cpu.max", "400000 100000"}},
        {{GROUP, "0::/a/b\n"},
         {V2 "a/b/cpu.max", "300000 100000"},
         {V2 "a/cpu.max", "20000 10000"}},
        {{GROUP, "0::/a\n"}, {V2 "a/cpu.max", "1000 100000\n"}}, /* less than a core */
        {{GROUP, "0::/host/name\n"}, {V2 "cpu.max", "500000 100000\n"}},
        {{GROUP, "0::/a\n"}, {V2 "a/cpu.max", "max 100000\n"}},
        {{GROUP, "0::/a\n"}, {V2 "a/cpu.max", "nonsense\n"}},
        {{GROUP, "0::/a\n"}, {V2 "a/cpu.max", "100000 0\n"}},
        {{V2 "cpu.max", "600000 100000\n"}},
    };
    static const uint32_t WANT[] = {2, 4, 2, 1, 5, 0, 0, 0, 6};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check(CASES[i], WANT[i]);
}

static void test_v1(void **state)
{
    static const struct file CASES[][MAX_FILES] = {
        {{GROUP, "5:memory:/x\n4:cpu,cpuacct:/a/b\n"},
         {V1 "a/b/cpu.cfs_quota_us", "350000\n"},
         {V1 "a/b/cpu.cfs_period_us", "100000\n"}},
        {{GROUP, "4:cpuacct,cpu:/a/b\n"}, /* the group above is tighter */
         {V1 "a/b/cpu.cfs_quota_us", "-1\n"},
         {V1 "a/b/cpu.cfs_period_us", "100000\n"},
         {V1 "a/cpu.cfs_quota_us", "100000\n"},
         {V1 "a/cpu.cfs_period_us", "50000\n"}},
        {{GROUP, "4:cpu:/docker/0123\n"}, /* the host's path, our own mount */
         {V1 "cpu.cfs_quota_us", "150000\n"},
         {V1 "cpu.cfs_period_us", "100000\n"}},
        {{GROUP, "4:cpu:/\n"},
         {V1 "cpu.cfs_quota_us", "-1\n"},
         {V1 "cpu.cfs_period_us", "100000\n"}},
        {{GROUP, "4:cpuset:/a\n3:cpuacct:/a\n"}, /* neither is the controller */
         {V1 "a/cpu.cfs_quota_us", "100000\n"},
         {V1 "a/cpu.cfs_period_us", "100000\n"}},
        {{GROUP, "4:cpu:/a\n"}, {V1 "a/cpu.cfs_quota_us", "100000\n"}}, /* no period */
    };
    static const uint32_t WANT[] = {3, 2, 1, 0, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check(CASES[i], WANT[i]);
}

/* systemd's hybrid: v1 for the controllers, v2 for its own bookkeeping. */
static void test_both(void **state)
{
    static const struct file TIGHTER_V1[] = {
        {GROUP, "4:cpu,cpuacct:/a\n1:name=systemd:/s\n0::/s\n"},
        {V1 "a/cpu.cfs_quota_us", "200000\n"},
        {V1 "a/cpu.cfs_period_us", "100000\n"},
        {V2 "s/cpu.max", "300000 100000\n"},
        {0}};
    static const struct file ONLY_V1[] = {{GROUP, "4:cpu,cpuacct:/a\n0::/s\n"},
                                          {V1 "a/cpu.cfs_quota_us", "200000\n"},
                                          {V1 "a/cpu.cfs_period_us", "100000\n"},
                                          {0}};
    static const struct file BROKEN[] = {{GROUP, "no colon\n4:cpu\n\n::\n"}, {0}};
    static const struct file NOTHING[] = {{0}};
    (void)state;
    check(TIGHTER_V1, 2);
    check(ONLY_V1, 2);
    check(BROKEN, 0);
    check(NOTHING, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_v2), cmocka_unit_test(test_v1),
                                       cmocka_unit_test(test_both)};
    return cmocka_run_group_tests_name("kernels.quota", tests, NULL, NULL);
}
