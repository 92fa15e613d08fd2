/* length: the output's size lies between min and max, counted in one unit. Linear; no state changes
 * after open. Tokens are those the engine generated, not a recount of the text. */
#include "verifier/check.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct length {
    int unit;
    int64_t min, max;
};

enum { NO_LIMIT = 1 << 30 };
static const char *const UNITS[] = {"tokens", "words", "chars", "lines", "sentences", NULL};
static const struct option OPTIONS[] = {
    {"unit", OPTION_ENUM, offsetof(struct length, unit), 0, 0, UNITS, "what is counted"},
    {"min", OPTION_INT, offsetof(struct length, min), 0, NO_LIMIT, NULL, "fewest allowed"},
    {"max", OPTION_INT, offsetof(struct length, max), 0, NO_LIMIT, NULL, "most allowed"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void length_close(void *state)
{
    free(state);
}

static int length_open(void **state, const struct json_at *params, struct err *e)
{
    struct length *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    l->max = NO_LIMIT;
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, l, e);
    if (rc == ERR_OK && l->min > l->max)
        rc = err_set(e, ERR_INVALID, "min: found %lld, allowed: at most max (%lld)",
                     (long long)l->min, (long long)l->max);
    if (rc != ERR_OK) {
        length_close(l);
        return rc;
    }
    *state = l;
    return ERR_OK;
}

typedef size_t count_fn(struct str s);
static count_fn *const COUNT[] = {NULL, text_count_words, text_count_chars, text_count_lines,
                                  text_count_sentences};

static struct check_verdict length_run(const void *state, const struct check_item *item)
{
    const struct length *l = state;
    const struct output *o = item->output;
    size_t n = COUNT[l->unit] ? COUNT[l->unit](o->text)
               : o->n_tokens  ? o->n_tokens
                              : o->completion_tokens;
    bool is_short = n < (uint64_t)l->min;
    struct check_verdict v =
        check_pass_if(!is_short && n <= (uint64_t)l->max, is_short ? "too_short" : "too_long");
    v.measure = (double)n;
    return v;
}

const struct check_ops CHECK_LENGTH = {
    .kind = "length",
    .code_version = 1,
    .summary = "size between min and max, in tokens, words, chars, lines or sentences",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = length_open,
    .run = length_run,
    .close = length_close,
};
