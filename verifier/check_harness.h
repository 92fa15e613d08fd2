/* verifier/check_harness.h - for *_test.c only: one check on one output, in one line. */
#ifndef VERIFIER_CHECK_HARNESS_H
#define VERIFIER_CHECK_HARNESS_H

#include "common/test.h"
#include "verifier/check.h"

#include <stdlib.h>
#include <string.h>

/* CPU time one hostile text may cost: generous for sanitizers and a busy machine. */
enum { HOSTILE_MAX_US = 5000000 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HOSTILE_BYTES = 1024 * 1024 };
#else
enum { HOSTILE_BYTES = 10 * 1024 * 1024 };
#endif

/* Opens with params (JSON text), runs, closes. The test fails when the check does not open. */
static inline struct check_verdict harness_run(const char *kind, const char *params,
                                               const struct output *o, const char *metadata)
{
    struct err e = {0};
    json_t *p = NULL, *m = NULL;
    void *state = NULL;
    const struct check_ops *ops = check_find(str_from(kind));
    assert_non_null(ops);
    assert_ok(json_parse(str_from(params), 0, &p, &e), &e);
    if (metadata)
        assert_ok(json_parse(str_from(metadata), 0, &m, &e), &e);
    struct json_at at = json_root(p);
    assert_ok(ops->open(&state, &at, &e), &e);
    struct arena a;
    arena_init(&a, 512 * MiB);
    struct check_item item = {.output = o, .metadata = m, .arena = &a};
    uint64_t start = check_cpu_us();
    struct check_verdict v = ops->run(state, &item);
    uint64_t spent = check_cpu_us() - start;
    if (spent > HOSTILE_MAX_US)
        fail_msg("%s %s took %llu us", kind, params, (unsigned long long)spent);
    ops->close(state);
    arena_free(&a);
    json_decref(p);
    json_decref(m);
    assert_non_null(v.reason);
    return v;
}

static inline struct check_verdict harness_text(const char *kind, const char *params,
                                                struct str text, const char *metadata)
{
    struct output o = {.text = text, .finish_reason = STR("stop")};
    return harness_run(kind, params, &o, metadata);
}

/* Opening must fail, and the message must hold `words`. */
static inline void harness_refuses(const char *kind, const char *params, const char *words)
{
    struct err e = {0};
    json_t *p = NULL;
    void *state = NULL;
    const struct check_ops *ops = check_find(str_from(kind));
    assert_ok(json_parse(str_from(params), 0, &p, &e), &e);
    struct json_at at = json_root(p);
    assert_int_equal(ops->open(&state, &at, &e), ERR_INVALID);
    if (!strstr(e.msg, words))
        fail_msg("message '%s' does not say '%s'", e.msg, words);
    json_decref(p);
}

/* n copies of piece, malloc'd. */
static inline struct str harness_repeat(const char *piece, size_t n)
{
    size_t len = strlen(piece);
    char *p = malloc(n * len + 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        memcpy(p + i * len, piece, len);
    return (struct str){p, n * len};
}

#endif
