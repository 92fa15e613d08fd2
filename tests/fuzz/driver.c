/* Runs a fuzz target without libFuzzer: every file of a corpus folder, then seeded mutations of it.
 *
 * usage: fuzz_NAME CORPUS_DIR [MUTATIONS_PER_FILE [SEED]]. The same LLVMFuzzerTestOneInput entry is
 * used by libFuzzer in the `fuzz` preset. A crash or a sanitizer report is the failure. */
#include "common/io.h"
#include "common/rng.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_FILES = 512, ROOM = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The copy has exactly `size` bytes, so that ASan sees a read past its end. */
static void run_exact(const char *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static size_t mutate(struct rng *r, char *data, size_t size)
{
    static const char TOKENS[] = "\"\\{}[]:,-+.eE0\n \xFF\x00<|>#&*!%@`'";
    uint64_t edits = 1 + rng_below(r, 8);
    for (uint64_t i = 0; i < edits; i++) {
        size_t at = size ? rng_below(r, size) : 0;
        switch (rng_below(r, 5)) {
        case 0:
            if (size)
                data[at] = (char)(data[at] ^ (1 << rng_below(r, 8)));
            break;
        case 1:
            if (size)
                data[at] = TOKENS[rng_below(r, sizeof TOKENS - 1)];
            break;
        case 2: /* cut */
            size = at;
            break;
        case 3: /* insert a byte; the buffer has ROOM to spare */
            memmove(data + at + 1, data + at, size - at);
            data[at] = (char)rng_below(r, 256);
            size++;
            break;
        default: /* remove a run */
            if (size) {
                size_t n = 1 + rng_below(r, size - at);
                memmove(data + at, data + at + n, size - at - n);
                size -= n;
            }
        }
    }
    return size;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, so that a seed means the same everywhere. */
static int list_files(const char *dir, char **names)
{
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    int n = 0;
    for (struct dirent *f; (f = readdir(d)) && n < MAX_FILES;)
        if (f->d_name[0] != '.' && asprintf(&names[n], "%s/%s", dir, f->d_name) > 0)
            n++;
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, compare_names);
    return n;
}

static int fuzz_file(const char *path, long mutations, struct rng *r)
{
    struct buf file;
    struct err e;
    buf_init(&file, MAX_FILE);
    if (io_read_file(path, &file, &e) != ERR_OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    run_exact(file.p, file.n);
    char *work = malloc(file.n + ROOM);
    if (!work)
        abort();
    for (long i = 0; i < mutations; i++) {
        memcpy(work, file.p ? file.p : "", file.n);
        run_exact(work, mutate(r, work, file.n));
    }
    free(work);
    buf_free(&file);
    return 0;
}

int main(int argc, char **argv)
{
    static char *names[MAX_FILES];
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS_DIR [MUTATIONS_PER_FILE [SEED]]\n", argv[0]);
        return 2;
    }
    long mutations = argc > 2 ? strtol(argv[2], NULL, 10) : 200;
    struct rng r;
    rng_seed(&r, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    int n = list_files(argv[1], names), failed = 0;
    if (n <= 0) {
        fprintf(stderr, "%s: no corpus file there\n", argv[1]);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        failed |= fuzz_file(names[i], mutations, &r);
        free(names[i]);
    }
    printf("%d files, %ld mutations each\n", n, mutations);
    return failed;
}
