/* First line = pattern, the rest = text. The check's verdict must be PCRE2's own when that comes to
 * one, and the work must end. */
#include "verifier/check.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { PATTERN_MAX = 64, TEXT_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 1 found, 0 not found, -1 the reference cannot say. */
static int reference(struct str pattern, struct str text)
{
    int code;
    size_t at;
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    pcre2_match_data *d = pcre2_match_data_create(1, NULL);
    pcre2_match_context *m = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(m, 20000);
    int rc = c ? pcre2_match(c, (PCRE2_SPTR)text.p, text.n, 0, 0, d, m) : PCRE2_ERROR_INTERNAL;
    pcre2_match_context_free(m);
    pcre2_match_data_free(d);
    pcre2_code_free(c);
    return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

static void compare(const struct check_ops *ops, const void *state, struct str pattern,
                    struct str text)
{
    struct output o = {.text = text};
    struct arena a;
    arena_init(&a, 16 << 20);
    struct check_item item = {.output = &o, .arena = &a};
    struct check_verdict v = ops->run(state, &item);
    int want = v.outcome == SCORE_UNSCORED ? -1 : reference(pattern, text);
    arena_free(&a);
    if (want >= 0 && (v.outcome == SCORE_PASS) != (want == 1))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, pattern;
    if (size == 0 || !str_split(&rest, '\n', &pattern) || pattern.n > PATTERN_MAX)
        return 0;
    struct str text = rest.p ? str_slice(rest, 0, TEXT_MAX) : STR("");
    json_t *params = json_object();
    json_t *value = json_stringn(pattern.p, pattern.n);
    const struct check_ops *ops = check_find(STR("regex"));
    void *state = NULL;
    if (value && json_object_set_new(params, "pattern", value) == 0) {
        struct json_at at = json_root(params);
        struct err e;
        if (ops->open(&state, &at, &e) == ERR_OK) {
            compare(ops, state, pattern, text);
            ops->close(state);
        }
    }
    json_decref(params);
    return 0;
}
