/* PCRE2 behind limits. The match limit alone starts again at every position, hence the count of
 * steps through callouts, or a match limit divided by the number of positions. A limit that is hit
 * is "inconclusive": neither found nor absent. */
#include "verifier/text/pattern.h"

#include "common/clock.h"
#include "verifier/text/ecma_form.h"
#include "verifier/text/regex_form.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    STEPS_MAX = 1 << 21,
    STEPS_PER_CLOCK = 1 << 9,
    BYTES_PER_STEP = 64, /* a callout that moved this far counts once more */
    MATCH_LIMIT = 100000,
    DEPTH_LIMIT = 10000,
    HEAP_LIMIT_KIB = 16 * 1024,
    WORKSPACE_INTS = 2048,
    PATTERN_MAX_BYTES = 4096,
    COMPILED_MAX_BYTES = 1 << 20,
    QUICK_TEXT_MAX_BYTES = 8 * 1024,
    QUICK_STEPS_MAX = 1 << 19, /* of machine code: a few ms in all */
    QUICK_STEPS_MIN = 32,      /* from one position */
    QUICK_COST = 1 << 17,      /* of STEPS_MAX, when they did not do */
};

struct pattern {
    pcre2_code *quick;     /* as written, machine code; NULL where the system allows none */
    pcre2_code *linear;    /* for the DFA; NULL when the pattern cannot be wrapped */
    pcre2_code *backtrack; /* as written */
};

struct pattern_work {
    uint64_t used, last_at, cpu_deadline_us;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    int space[WORKSPACE_INTS];
};

void pattern_close(struct pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->quick);
    pcre2_code_free(p->linear);
    pcre2_code_free(p->backtrack);
    free(p);
}

static pcre2_code *compile(struct str pattern, unsigned flags, uint32_t extra, int *code,
                           size_t *at)
{
    uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | extra;
    options |= flags & PATTERN_ECMA ? PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF : PCRE2_UCP;
    options |= flags & PATTERN_IGNORE_CASE ? PCRE2_CASELESS : 0;
    options |= flags & PATTERN_MULTI_LINE ? PCRE2_MULTILINE : 0;
    options |= flags & PATTERN_DOT_ALL ? PCRE2_DOTALL : 0;
    return pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, options, code, at, NULL);
}

static int compile_as_written(struct pattern *p, struct str pattern, unsigned flags, struct err *e)
{
    int code = 0;
    size_t at = 0, bytes = 0;
    p->backtrack = compile(pattern, flags, PCRE2_AUTO_CALLOUT, &code, &at);
    if (!p->backtrack) {
        char why[120];
        if (pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why) < 0)
            why[0] = '\0';
        return err_set(e, ERR_INVALID, "pattern: %s at byte %zu of '" STR_FMT "'", why, at,
                       STR_ARG(str_slice(pattern, 0, 60)));
    }
    if (pcre2_pattern_info(p->backtrack, PCRE2_INFO_SIZE, &bytes) != 0 ||
        bytes > COMPILED_MAX_BYTES)
        return err_set(e, ERR_INVALID,
                       "pattern: needs %zu bytes compiled, allowed: %d (smaller "
                       "repeat counts)",
                       bytes, COMPILED_MAX_BYTES);
    return ERR_OK;
}

static void compile_quick(struct pattern *p, struct str pattern, unsigned flags)
{
    int code;
    size_t at;
    p->quick = compile(pattern, flags, 0, &code, &at);
    if (p->quick && pcre2_jit_compile(p->quick, PCRE2_JIT_COMPLETE) == 0)
        return;
    pcre2_code_free(p->quick);
    p->quick = NULL;
}

/* A pattern that ends in an (?x) comment, or that begins with a (*VERB), does not survive the
 * wrapping: then there is only the backtracking matcher. */
static int compile_wrapped(struct pattern *p, struct str pattern, unsigned flags, struct err *e)
{
    int code;
    size_t at;
    struct buf wrapped;
    buf_init(&wrapped, 32 * PATTERN_MAX_BYTES);
    buf_put_c(&wrapped, "(?s:.*?)(?:");
    bool is_plain = regex_form(pattern, &wrapped);
    buf_put_char(&wrapped, ')');
    int rc = buf_check(&wrapped, "pattern", e);
    if (rc == ERR_OK && is_plain && str_find(pattern, STR("\\G"), 0) < 0)
        p->linear =
            compile(buf_str(&wrapped), flags, PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT, &code, &at);
    buf_free(&wrapped);
    return rc;
}

int pattern_open(struct pattern **out, struct str pattern, unsigned flags, struct err *e)
{
    *out = NULL;
    if (pattern.n == 0 || pattern.n > PATTERN_MAX_BYTES)
        return err_set(e, ERR_INVALID, "pattern: found %zu bytes, allowed: 1 to %d", pattern.n,
                       PATTERN_MAX_BYTES);
    struct pattern *p = calloc(1, sizeof *p);
    struct buf form;
    buf_init(&form, 32 * PATTERN_MAX_BYTES);
    int rc = p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a pattern");
    if (rc == ERR_OK && flags & PATTERN_ECMA) {
        rc = ecma_form(pattern, &form, e);
        pattern = buf_str(&form);
    }
    if (rc == ERR_OK)
        rc = compile_as_written(p, pattern, flags, e);
    if (rc == ERR_OK)
        rc = compile_wrapped(p, pattern, flags, e);
    if (rc == ERR_OK)
        compile_quick(p, pattern, flags);
    buf_free(&form);
    if (rc != ERR_OK) {
        pattern_close(p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

/* PCRE2 calls this before every item of the pattern it tries. */
static int count_step(pcre2_callout_block *b, void *data)
{
    struct pattern_work *w = data;
    uint64_t at = b->current_position;
    uint64_t moved = at > w->last_at ? at - w->last_at : w->last_at - at;
    uint64_t before = w->used;
    w->last_at = at;
    w->used += 1 + moved / BYTES_PER_STEP;
    if (w->used > STEPS_MAX)
        return PCRE2_ERROR_CALLOUT;
    bool ask_clock = before / STEPS_PER_CLOCK != w->used / STEPS_PER_CLOCK;
    bool is_late = ask_clock && w->cpu_deadline_us && clock_cpu_us() > w->cpu_deadline_us;
    return is_late ? PCRE2_ERROR_CALLOUT : 0;
}

struct pattern_work *pattern_work_new(uint64_t cpu_deadline_us)
{
    struct pattern_work *w = malloc(sizeof *w);
    if (!w)
        return NULL;
    w->used = w->last_at = 0;
    w->cpu_deadline_us = cpu_deadline_us;
    w->limits = pcre2_match_context_create(NULL);
    w->data = pcre2_match_data_create(1, NULL);
    if (!w->limits || !w->data) {
        pattern_work_free(w);
        return NULL;
    }
    pcre2_set_depth_limit(w->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(w->limits, HEAP_LIMIT_KIB);
    pcre2_set_callout(w->limits, count_step, w);
    return w;
}

void pattern_work_free(struct pattern_work *w)
{
    if (!w)
        return;
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->limits);
    free(w);
}

static bool needs_backtracking(int rc)
{
    return rc == PCRE2_ERROR_DFA_UITEM || rc == PCRE2_ERROR_DFA_UCOND ||
           rc == PCRE2_ERROR_DFA_UINVALID_UTF || rc == PCRE2_ERROR_DFA_UFUNC ||
           rc == PCRE2_ERROR_DFA_WSSIZE || rc == PCRE2_ERROR_DFA_RECURSE;
}

/* Short texts and tame patterns, so nearly all: ten times faster than the matchers that count. The
 * limit holds for each position; what stays uncounted within one step is linear in the text. */
static int search_quick(const struct pattern *p, struct str text, struct pattern_work *w)
{
    if (!p->quick || text.n > QUICK_TEXT_MAX_BYTES || w->used > STEPS_MAX)
        return PCRE2_ERROR_MATCHLIMIT;
    uint32_t steps = QUICK_STEPS_MAX / (uint32_t)(text.n + 1);
    pcre2_set_match_limit(w->limits, steps > QUICK_STEPS_MIN ? steps : QUICK_STEPS_MIN);
    int rc = pcre2_match(p->quick, (PCRE2_SPTR)text.p, text.n, 0, 0, w->data, w->limits);
    bool is_over = rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_JIT_STACKLIMIT;
    w->used += is_over ? QUICK_COST : 1 + text.n / BYTES_PER_STEP;
    return is_over ? PCRE2_ERROR_MATCHLIMIT : rc;
}

static int search_counted(const struct pattern *p, struct str text, struct pattern_work *w)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text.p;
    uint64_t used_before = w->used;
    int rc = PCRE2_ERROR_DFA_UITEM;
    w->last_at = 0;
    pcre2_set_match_limit(w->limits, MATCH_LIMIT);
    if (p->linear)
        rc = pcre2_dfa_match(p->linear, subject, text.n, 0, PCRE2_DFA_SHORTEST, w->data, w->limits,
                             w->space, WORKSPACE_INTS);
    if (needs_backtracking(rc)) {
        w->used = used_before;
        w->last_at = 0;
        rc = pcre2_match(p->backtrack, subject, text.n, 0, 0, w->data, w->limits);
    }
    return rc;
}

enum pattern_result pattern_search(const struct pattern *p, struct str text, struct pattern_work *w)
{
    if (!text.p)
        text = STR("");
    int rc = search_quick(p, text, w);
    if (rc == PCRE2_ERROR_MATCHLIMIT)
        rc = search_counted(p, text, w);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return rc >= 0 ? PATTERN_FOUND : PATTERN_ABSENT;
    bool is_bad_utf = rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
    return is_bad_utf ? PATTERN_BAD_TEXT : PATTERN_INCONCLUSIVE;
}
