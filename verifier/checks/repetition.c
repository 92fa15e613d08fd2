/* repetition: share of repeated word n-grams (1 - unique/total, as open-r1's repetition penalty
 * counts it) and a block of tokens repeated at the end (the rule vLLM stops generation by). */
#include "verifier/check.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct repetition {
    int64_t n, tail_min, tail_max, tail_count;
    double max;
};

enum { TAIL_WORK_MAX = 1 << 16 }; /* tail_max * tail_count: bounds the comparisons of one output */
#define AT(field) offsetof(struct repetition, field)
static const struct option OPTIONS[] = {
    {"n", OPTION_INT, AT(n), 1, 16, NULL, "words in an n-gram"},
    {"max", OPTION_REAL, AT(max), 0, 1, NULL, "largest share of repeats that passes"},
    {"tail_min", OPTION_INT, AT(tail_min), 1, 1024, NULL, "shortest repeated block, tokens"},
    {"tail_max", OPTION_INT, AT(tail_max), 0, 1024, NULL, "longest repeated block; 0 = no rule"},
    {"tail_count", OPTION_INT, AT(tail_count), 2, 32768, NULL, "copies that make a loop"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void repetition_close(void *state)
{
    free(state);
}

static int check_ranges(const struct repetition *r, struct err *e)
{
    if (r->tail_max && r->tail_min > r->tail_max)
        return err_set(e, ERR_INVALID, "tail_min: found %lld, allowed: at most tail_max (%lld)",
                       (long long)r->tail_min, (long long)r->tail_max);
    if (r->tail_max * r->tail_count > TAIL_WORK_MAX)
        return err_set(e, ERR_INVALID, "tail_max * tail_count: found %lld, allowed: at most %d",
                       (long long)(r->tail_max * r->tail_count), TAIL_WORK_MAX);
    return ERR_OK;
}

static int repetition_open(void **state, const struct json_at *params, struct err *e)
{
    struct repetition *r = malloc(sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    *r = (struct repetition){.n = 3, .tail_min = 1, .tail_max = 32, .tail_count = 8, .max = 0.5};
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, r, e);
    if (rc == ERR_OK)
        rc = check_ranges(r, e);
    if (rc != ERR_OK) {
        repetition_close(r);
        return rc;
    }
    *state = r;
    return ERR_OK;
}

/* Set of hashes with open addressing; 0 marks a free place. True when h is new. */
static bool set_add(uint64_t *set, size_t mask, uint64_t h)
{
    h += h == 0;
    size_t i = (h * 0x9E3779B97F4A7C15u >> 17) & mask;
    while (set[i] && set[i] != h)
        i = (i + 1) & mask;
    bool is_new = set[i] == 0;
    set[i] = h;
    return is_new;
}

static uint64_t mix_ngram(const uint64_t *word, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ word[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

/* False when memory is out. */
static bool share_of_repeats(const struct repetition *r, const struct check_item *item, double *out)
{
    *out = 0;
    struct str text = item->output->text;
    uint64_t *hash = arena_array(item->arena, text.n / 2 + 1, sizeof *hash);
    if (!hash)
        return false;
    size_t words = text_hash_words(text, hash), n = (size_t)r->n, capacity = 16;
    if (words < n)
        return true;
    size_t total = words - n + 1, unique = 0;
    while (capacity < total * 2)
        capacity *= 2;
    uint64_t *set = arena_array(item->arena, capacity, sizeof *set);
    if (!set)
        return false;
    for (size_t i = 0; i < total; i++)
        unique += set_add(set, capacity - 1, mix_ngram(hash + i, n));
    *out = 1.0 - (double)unique / (double)total;
    return true;
}

/* The last `count` blocks of `period` tokens are the same: every token equals the one a period
 * before it. */
static bool repeats_with(const int32_t *token, size_t n, size_t period, size_t count)
{
    size_t span = period * count;
    if (span > n)
        return false;
    for (size_t i = n - span + period; i < n; i++)
        if (token[i] != token[i - period])
            return false;
    return true;
}

static bool has_tail_loop(const struct repetition *r, const struct output *o)
{
    for (int64_t period = r->tail_min; period <= r->tail_max; period++)
        if (repeats_with(o->token_ids, o->n_tokens, (size_t)period, (size_t)r->tail_count))
            return true;
    return false;
}

static struct check_verdict repetition_run(const void *state, const struct check_item *item)
{
    const struct repetition *r = state;
    double share;
    if (!share_of_repeats(r, item, &share))
        return check_unscored("no_memory");
    bool loops = has_tail_loop(r, item->output);
    struct check_verdict v = check_pass_if(!loops && share <= r->max, loops ? "loop" : "repeats");
    v.measure = share;
    return v;
}

const struct check_ops CHECK_REPETITION = {
    .kind = "repetition",
    .code_version = 1,
    .summary = "few repeated word n-grams and no token block repeated at the end",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = repetition_open,
    .run = repetition_run,
    .close = repetition_close,
};
