/* engine/sched/draft.h - speculation: a sequence's next tokens are guessed from its own text.
 *
 * What followed when its newest tokens stood together before is a draft of what comes now (prompt
 * lookup decoding, A. Saxena 2023; "n-gram speculation" elsewhere). The step that computes the
 * newest token computes the draft as well and draws after each of them; drafted tokens that are
 * drawn need no step of their own. A draw is a function of its row, seed and place, and a row is
 * the same in any batch: so answers are those without drafts, whatever is sampled. Pure. */
#ifndef ENGINE_SCHED_DRAFT_H
#define ENGINE_SCHED_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

struct draft {
    uint32_t n_open; /* tokens that stand behind the sequence's own and nobody has drawn yet */
    uint32_t n_given, n_right; /* of the last draft */
    uint32_t wait, n_missed;   /* steps without short drafts; drafts of which nothing was right */
    bool is_trusted;           /* the last one was all right */
};

/* Writes at most `most` tokens behind the n >= 1 there are; how many. only_sure: where a miss costs
 * others time. */
uint32_t draft_make(const struct draft *d, int32_t *tokens, uint32_t n, uint32_t most,
                    bool only_sure);
/* So many of them are computed in the next step. */
void draft_give(struct draft *d, uint32_t n);
/* The next open one was drawn, or another token: then none is open any more. */
void draft_judge(struct draft *d, bool is_right);
/* A step went by. */
void draft_age(struct draft *d);

#endif
