/* regex: PCRE2 with Unicode rules. Patterns are the operator's, texts are hostile: the search is
 * bounded in verifier/text/pattern.c, and a limit that is hit is "inconclusive", neither pass nor
 * fail. State is read-only after open. */
#include "verifier/check.h"
#include "verifier/text/pattern.h"

#include <stdlib.h>

struct regex {
    struct str source;
    bool ignore_case, multi_line, dot_all, negate;
    struct pattern *pattern;
};

#define AT(field) offsetof(struct regex, field)
static const struct option OPTIONS[] = {
    {"pattern", OPTION_TEXT, AT(source), 0, 0, NULL, "searched for anywhere unless anchored"},
    {"ignore_case", OPTION_BOOL, AT(ignore_case), 0, 0, NULL, "Unicode case-insensitive"},
    {"multi_line", OPTION_BOOL, AT(multi_line), 0, 0, NULL, "^ and $ match at lines"},
    {"dot_all", OPTION_BOOL, AT(dot_all), 0, 0, NULL, "the dot matches newlines"},
    {"negate", OPTION_BOOL, AT(negate), 0, 0, NULL, "pass when the pattern is not there"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void regex_close(void *state)
{
    struct regex *r = state;
    if (r)
        pattern_close(r->pattern);
    free(r);
}

static int regex_open(void **state, const struct json_at *params, struct err *e)
{
    struct regex *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, r, e);
    unsigned flags = (r->ignore_case ? PATTERN_IGNORE_CASE : 0) |
                     (r->multi_line ? PATTERN_MULTI_LINE : 0) | (r->dot_all ? PATTERN_DOT_ALL : 0);
    if (rc == ERR_OK)
        rc = pattern_open(&r->pattern, r->source, flags, e);
    if (rc != ERR_OK) {
        regex_close(r);
        return rc;
    }
    *state = r;
    return ERR_OK;
}

static struct check_verdict regex_run(const void *state, const struct check_item *item)
{
    const struct regex *r = state;
    if (item->output->text.n > CHECK_TEXT_MAX_BYTES)
        return check_unscored("inconclusive");
    struct pattern_work *work = pattern_work_new(item->cpu_deadline_us);
    if (!work)
        return check_unscored("no_memory");
    enum pattern_result found = pattern_search(r->pattern, item->output->text, work);
    pattern_work_free(work);
    if (found == PATTERN_BAD_TEXT || found == PATTERN_INCONCLUSIVE)
        return check_unscored(found == PATTERN_BAD_TEXT ? "invalid_text" : "inconclusive");
    return check_pass_if((found == PATTERN_FOUND) != r->negate, r->negate ? "matches" : "no_match");
}

const struct check_ops CHECK_REGEX = {
    .kind = "regex",
    .code_version = 2,
    .summary = "a PCRE2 pattern is found (or, negated, is not)",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = regex_open,
    .run = regex_run,
    .close = regex_close,
};
