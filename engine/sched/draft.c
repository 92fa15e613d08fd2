/* The text is searched from its end, once a step: 4,000 tokens take two microseconds, where a step
 * takes a thousand. How long a match must be, how many tokens are worth it after one and how long
 * a miss is waited for were chosen on answers of SmolLM2 (tests/bench/drafts.py says what they
 * gain): shorter matches and waits cost answers that repeat nothing 3%. */
#include "engine/sched/draft.h"

enum {
    SHORTEST_MATCH = 3, /* shorter ones stand everywhere and say little */
    LONGEST_MATCH = 8,  /* says so much that no miss before it counts */
    FEW = 3,            /* with the newest one a tile of four tokens, which cost what two do */
    MOST_MISSED = 5     /* after one of them 2 << 5 steps are waited */
};

/* How many tokens before `end` are those before n, at most LONGEST_MATCH. */
static uint32_t match_length(const int32_t *tokens, uint32_t n, uint32_t end)
{
    uint32_t k = 0;
    while (k < LONGEST_MATCH && k < end && tokens[end - 1 - k] == tokens[n - 1 - k])
        k++;
    return k;
}

/* The longest match, of equals the latest, and its end; 0 where none has `shortest`. */
static uint32_t find_match(const int32_t *tokens, uint32_t n, uint32_t shortest, uint32_t *end)
{
    uint32_t best = 0;
    for (uint32_t at = n - 1; at > 0 && best < LONGEST_MATCH; at--) {
        uint32_t k = match_length(tokens, n, at);
        if (k < shortest || k <= best)
            continue;
        best = k;
        *end = at;
    }
    return best;
}

/* What repeats goes on repeating: the copy may run into itself. */
uint32_t draft_make(const struct draft *d, int32_t *tokens, uint32_t n, uint32_t most,
                    bool only_sure)
{
    uint32_t from = 0, shortest = d->wait || only_sure ? LONGEST_MATCH : SHORTEST_MATCH;
    uint32_t match = find_match(tokens, n, shortest, &from);
    bool is_sure = d->is_trusted || match == LONGEST_MATCH;
    uint32_t length = is_sure || most < FEW ? most : FEW;
    if (match == 0)
        return 0;
    for (uint32_t i = 0; i < length; i++)
        tokens[n + i] = tokens[from + i];
    return length;
}

void draft_give(struct draft *d, uint32_t n)
{
    d->n_open = d->n_given = n;
    d->n_right = 0;
}

static void settle(struct draft *d)
{
    d->is_trusted = d->n_right == d->n_given;
    if (d->n_right) {
        d->n_missed = 0;
        return;
    }
    d->n_missed += d->n_missed < MOST_MISSED;
    d->wait = 2u << d->n_missed;
}

void draft_judge(struct draft *d, bool is_right)
{
    d->n_right += is_right;
    d->n_open = is_right ? d->n_open - 1 : 0;
    if (d->n_open == 0)
        settle(d);
}

void draft_age(struct draft *d)
{
    d->wait -= d->wait > 0;
}
