/* The configuration loader on any bytes: as a file, as an override. What loads must print, and what
 * was printed must load to the same text again. */
#include "schemas/config.h"

#include "common/io.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* libfyaml 0.7.12 loses a few hundred bytes on a quoted text that does not end; a process reads its
 * configuration once. It calls nothing of ours, so no leak of ours is hidden. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* True and the printed form when the text loads. */
static bool load_and_print(struct str text, struct buf *out)
{
    struct arena a;
    struct milepost_config c;
    char path[64];
    int fd = memfd_create("config", 0);
    require(fd >= 0 && io_write_all(fd, text, NULL) == ERR_OK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    arena_init(&a, 64 * MiB);
    bool loads = milepost_config_load(path, NULL, 0, &a, &c, NULL) == ERR_OK;
    if (loads)
        require(cfg_print(&MILEPOST_CONFIG, &c, out, NULL) == ERR_OK);
    arena_free(&a);
    close(fd);
    return loads;
}

static void try_override(struct str text)
{
    char *copy = str_dup_c(text); /* NULL when it holds a NUL */
    if (!copy)
        return;
    const char *overrides[] = {copy};
    struct arena a;
    struct milepost_config c;
    arena_init(&a, 64 * MiB);
    (void)!milepost_config_load(NULL, overrides, 1, &a, &c, NULL);
    arena_free(&a);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct buf first, second;
    buf_init(&first, 16 * MiB);
    buf_init(&second, 16 * MiB);
    if (load_and_print(text, &first)) {
        require(load_and_print(buf_str(&first), &second));
        require(str_eq(buf_str(&first), buf_str(&second)));
    }
    try_override(text);
    buf_free(&first);
    buf_free(&second);
    return 0;
}
