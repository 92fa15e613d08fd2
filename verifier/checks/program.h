/* verifier/checks/program.h - what command and code share: questions to worker processes and their
 * one-line answers.
 *
 * Question: {"id", ...}. Answer: {"id": the same, and one of "pass": bool, "score": [0,1],
 * "unscored": reason}, with "reason" beside pass or score when there is one. */
#ifndef VERIFIER_CHECKS_PROGRAM_H
#define VERIFIER_CHECKS_PROGRAM_H

#include "verifier/check.h"
#include "verifier/remote/remote.h"

/* "request/choice": an answer that belongs to another question is told by it. */
struct str program_id(const struct output *o, struct arena *a);
/* Reads an answer; the reason becomes one of the literals known here, else "program". */
struct check_verdict program_read(const struct check_item *item, struct str answer,
                                  bool *is_broken);
/* SHA-256 over the arguments and the content of those that name files: a program that changed is
 * another check. out[65]. */
MUST_USE int program_content(const struct cfg_text_list *argv, char *out, struct err *e);

#endif
