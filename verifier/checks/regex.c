/* regex: PCRE2 with Unicode rules. Patterns are the operator's, texts are hostile.
 *
 * The pattern is searched for by PCRE2's DFA matcher behind one anchored ".*?" that walks all
 * starting points at once: no backtracking, time linear in the text. What a DFA cannot do (back
 * references, \K, recursion conditions), or what needs too many states at once (each step costs
 * their square), goes to the backtracking matcher with a match limit. Both count their steps
 * through callouts; the match limit alone starts again at every position. A limit that is hit is
 * "inconclusive": neither pass nor fail. State is read-only after open. */
#include "verifier/check.h"
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
};

struct regex {
    struct str pattern;
    bool ignore_case, multi_line, dot_all, negate;
    pcre2_code *linear;    /* for the DFA; NULL when the pattern cannot be wrapped */
    pcre2_code *backtrack; /* as written */
    struct arena arena;
};

#define AT(field) offsetof(struct regex, field)
static const struct option OPTIONS[] = {
    {"pattern", OPTION_TEXT, AT(pattern), 0, 0, NULL, "searched for anywhere unless anchored"},
    {"ignore_case", OPTION_BOOL, AT(ignore_case), 0, 0, NULL, "Unicode case-insensitive"},
    {"multi_line", OPTION_BOOL, AT(multi_line), 0, 0, NULL, "^ and $ match at lines"},
    {"dot_all", OPTION_BOOL, AT(dot_all), 0, 0, NULL, "the dot matches newlines"},
    {"negate", OPTION_BOOL, AT(negate), 0, 0, NULL, "pass when the pattern is not there"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void regex_close(void *state)
{
    struct regex *r = state;
    if (!r)
        return;
    pcre2_code_free(r->linear);
    pcre2_code_free(r->backtrack);
    arena_free(&r->arena);
    free(r);
}

static pcre2_code *compile(const struct regex *r, struct str pattern, uint32_t extra, int *code,
                           size_t *at)
{
    uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT | extra;
    flags |= r->ignore_case ? PCRE2_CASELESS : 0;
    flags |= r->multi_line ? PCRE2_MULTILINE : 0;
    flags |= r->dot_all ? PCRE2_DOTALL : 0;
    return pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, flags, code, at, NULL);
}

static int compile_as_written(struct regex *r, struct err *e)
{
    int code = 0;
    size_t at = 0, bytes = 0;
    r->backtrack = compile(r, r->pattern, 0, &code, &at);
    if (!r->backtrack) {
        char why[120];
        if (pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why) < 0)
            why[0] = '\0';
        return err_set(e, ERR_INVALID, "pattern: %s at byte %zu of '" STR_FMT "'", why, at,
                       STR_ARG(str_slice(r->pattern, 0, 60)));
    }
    if (pcre2_pattern_info(r->backtrack, PCRE2_INFO_SIZE, &bytes) != 0 ||
        bytes > COMPILED_MAX_BYTES)
        return err_set(e, ERR_INVALID,
                       "pattern: needs %zu bytes compiled, allowed: %d (smaller "
                       "repeat counts)",
                       bytes, COMPILED_MAX_BYTES);
    return ERR_OK;
}

/* A pattern that ends in an (?x) comment, or that begins with a (*VERB), does not survive the
 * wrapping: then there is only the backtracking matcher. */
static int compile_wrapped(struct regex *r, struct err *e)
{
    int code;
    size_t at;
    struct buf wrapped;
    buf_init(&wrapped, 16 * PATTERN_MAX_BYTES);
    buf_put_c(&wrapped, "(?s:.*?)(?:");
    bool is_plain = regex_form(r->pattern, &wrapped);
    buf_put_char(&wrapped, ')');
    int rc = buf_check(&wrapped, "pattern", e);
    if (rc == ERR_OK && is_plain && str_find(r->pattern, STR("\\G"), 0) < 0)
        r->linear = compile(r, buf_str(&wrapped), PCRE2_ANCHORED, &code, &at);
    buf_free(&wrapped);
    return rc;
}

static int regex_open(void **state, const struct json_at *params, struct err *e)
{
    struct regex *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&r->arena, 64 * KiB);
    int rc = options_read(OPTIONS, OPTIONS_N, params, &r->arena, r, e);
    if (rc == ERR_OK && (r->pattern.n == 0 || r->pattern.n > PATTERN_MAX_BYTES))
        rc = err_set(e, ERR_INVALID, "pattern: found %zu bytes, allowed: 1 to %d", r->pattern.n,
                     PATTERN_MAX_BYTES);
    if (rc == ERR_OK)
        rc = compile_as_written(r, e);
    if (rc == ERR_OK)
        rc = compile_wrapped(r, e);
    if (rc != ERR_OK) {
        regex_close(r);
        return rc;
    }
    *state = r;
    return ERR_OK;
}

struct steps {
    const struct check_item *item;
    uint64_t used, last_at;
};

/* PCRE2 calls this before every item of the pattern it tries. */
static int count_step(pcre2_callout_block *b, void *data)
{
    struct steps *s = data;
    uint64_t at = b->current_position;
    uint64_t moved = at > s->last_at ? at - s->last_at : s->last_at - at;
    uint64_t before = s->used;
    s->last_at = at;
    s->used += 1 + moved / BYTES_PER_STEP;
    if (s->used > STEPS_MAX)
        return PCRE2_ERROR_CALLOUT;
    bool ask_clock = before / STEPS_PER_CLOCK != s->used / STEPS_PER_CLOCK;
    return ask_clock && check_is_late(s->item) ? PCRE2_ERROR_CALLOUT : 0;
}

static pcre2_match_context *limits_new(struct steps *s)
{
    pcre2_match_context *m = pcre2_match_context_create(NULL);
    if (!m)
        return NULL;
    pcre2_set_match_limit(m, MATCH_LIMIT);
    pcre2_set_depth_limit(m, DEPTH_LIMIT);
    pcre2_set_heap_limit(m, HEAP_LIMIT_KIB);
    pcre2_set_callout(m, count_step, s);
    return m;
}

static bool needs_backtracking(int rc)
{
    return rc == PCRE2_ERROR_DFA_UITEM || rc == PCRE2_ERROR_DFA_UCOND ||
           rc == PCRE2_ERROR_DFA_UINVALID_UTF || rc == PCRE2_ERROR_DFA_UFUNC ||
           rc == PCRE2_ERROR_DFA_WSSIZE || rc == PCRE2_ERROR_DFA_RECURSE;
}

/* PCRE2's code: >= 0 found, NOMATCH, or an error. */
static int search(const struct regex *r, const struct check_item *item)
{
    struct str text = item->output->text;
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.p ? text.p : "");
    struct steps steps = {.item = item};
    pcre2_match_context *limits = limits_new(&steps);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int *work = arena_array(item->arena, WORKSPACE_INTS, sizeof *work);
    int rc = PCRE2_ERROR_NOMEMORY;
    if (!limits || !data || !work)
        goto out;
    rc = PCRE2_ERROR_DFA_UITEM;
    if (r->linear)
        rc = pcre2_dfa_match(r->linear, subject, text.n, 0, PCRE2_DFA_SHORTEST, data, limits, work,
                             WORKSPACE_INTS);
    if (needs_backtracking(rc)) {
        steps = (struct steps){.item = item};
        rc = pcre2_match(r->backtrack, subject, text.n, 0, 0, data, limits);
    }
out:
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    return rc;
}

static struct check_verdict regex_run(const void *state, const struct check_item *item)
{
    const struct regex *r = state;
    if (item->output->text.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    int rc = search(r, item);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return check_pass_if((rc >= 0) != r->negate, r->negate ? "matches" : "no_match");
    bool is_bad_utf = rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
    return check_unscored(is_bad_utf ? "invalid_text" : "inconclusive");
}

const struct check_ops CHECK_REGEX = {
    .kind = "regex",
    .code_version = 1,
    .summary = "a PCRE2 pattern is found (or, negated, is not)",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = regex_open,
    .run = regex_run,
    .close = regex_close,
};
