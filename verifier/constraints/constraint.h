/* verifier/constraints/constraint.h - verifiable instructions: does a text follow one?
 *
 * Instructions carry the names and arguments of IFEval (arXiv 2311.07911) and IFBench (arXiv
 * 2507.02833). Any thread; time and memory are bounded by the length of the text. */
#ifndef VERIFIER_CONSTRAINTS_CONSTRAINT_H
#define VERIFIER_CONSTRAINTS_CONSTRAINT_H

#include "verifier/check.h"

struct language; /* verifier/text/language.h */

enum constraint_outcome { CONSTRAINT_FOLLOWED, CONSTRAINT_BROKEN, CONSTRAINT_UNSCORED };

/* id and kwargs as the data sets write them: numbers may be 3.0, null is absent. Unscored, *reason:
 * "unknown_instruction"; "unsupported_instruction" (a part-of-speech tagger or a pronouncing
 * dictionary is needed); "bad_arguments"; "unknown_language"; "no_memory". */
enum constraint_outcome constraint_check(struct str id, const json_t *kwargs, struct str text,
                                         const struct check_item *item,
                                         const struct language *language, const char **reason);
size_t constraint_count(void);
const char *constraint_name(size_t i);

#endif
