/* verifier/text/pattern.h - searching hostile text for an operator's PCRE2 pattern, in bounded
 * work.
 *
 * Texts up to 8 KiB are searched by PCRE2's machine code, within a fixed number of steps. What that
 * does not decide is searched for by its DFA matcher behind one anchored ".*?" that walks all
 * starting points at once: no backtracking, time linear in the text. What a DFA cannot do (back
 * references, \K, recursion conditions), or what needs too many states at once (each step costs
 * their square), goes to the backtracking matcher with a match limit. Both count their steps. */
#ifndef VERIFIER_TEXT_PATTERN_H
#define VERIFIER_TEXT_PATTERN_H

#include "common/arena.h"

enum pattern_flag {
    PATTERN_IGNORE_CASE = 1,
    PATTERN_MULTI_LINE = 2,
    PATTERN_DOT_ALL = 4,
    PATTERN_ECMA = 8 /* ECMA-262's reading with the u flag, as JSON Schema wants it */
};

struct pattern; /* read-only after open: any number of threads */
/* ERR_INVALID: "pattern: what is wrong at byte N of '...'". */
MUST_USE int pattern_open(struct pattern **out, struct str pattern, unsigned flags, struct err *e);
void pattern_close(struct pattern *p);

/* Scratch memory and the step budget of one output, shared by all its searches. One thread. */
struct pattern_work;
struct pattern_work *pattern_work_new(uint64_t cpu_deadline_us); /* 0 = none; NULL: no memory */
void pattern_work_free(struct pattern_work *w);

enum pattern_result { PATTERN_FOUND, PATTERN_ABSENT, PATTERN_INCONCLUSIVE, PATTERN_BAD_TEXT };
enum pattern_result pattern_search(const struct pattern *p, struct str text,
                                   struct pattern_work *w);

#endif
