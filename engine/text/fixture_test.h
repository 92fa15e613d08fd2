/* engine/text/fixture_test.h - fixture.h for cmocka tests: whatever goes wrong fails the test. */
#ifndef ENGINE_TEXT_FIXTURE_TEST_H
#define ENGINE_TEXT_FIXTURE_TEST_H

#include "common/test.h"

#include "common/io.h"
#include "engine/text/fixture.h"
#include "engine/text/tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

/* Fails the test when the file cannot be made or read. */
static inline struct gguf *fixture_open(const struct fixture *f)
{
    char path[] = "/tmp/milepost_text_XXXXXX";
    struct err e = {0};
    struct buf b;
    struct gguf *g = NULL;
    buf_init(&b, 16 * MiB);
    fixture_write(&b, f);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_ok(io_write_all(fd, buf_str(&b), &e), &e);
    close(fd);
    buf_free(&b);
    assert_ok(gguf_open(&g, path, &e), &e);
    unlink(path);
    return g;
}

static inline int32_t fixture_id(const struct fixture *f, const char *text)
{
    uint32_t at = 256 + fixture_count(f->merge, FIXTURE_MAX_LIST);
    for (size_t i = 0; i < 24 && f->control[i]; i++, at++)
        if (strcmp(f->control[i], text) == 0)
            return (int32_t)at;
    for (size_t i = 0; i < 8 && f->user[i]; i++, at++)
        if (strcmp(f->user[i], text) == 0)
            return (int32_t)at;
    fail_msg("the fixture has no token %s", text);
    return -1;
}

#endif
