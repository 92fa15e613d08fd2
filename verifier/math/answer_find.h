/* verifier/math/answer_find.h - boxes, formulas, cues and numbers in prose. Private to answer.c. */
#ifndef VERIFIER_MATH_ANSWER_FIND_H
#define VERIFIER_MATH_ANSWER_FIND_H

#include "verifier/math/answer.h"

enum { ANSWER_PARTS_MAX = 16 };

struct answer_part {
    size_t from, to;             /* of the content */
    size_t outer_from, outer_to; /* with its delimiters */
};

struct answer_parts {
    int n;
    struct answer_part part[ANSWER_PARTS_MAX]; /* in order of the text */
};

/* 1: the last box and what is joined to it; 0: no box; -1: the last one is not closed. */
int answer_boxes(struct str s, struct answer_parts *out);
/* The last formula between $ or \( \) or \[ \] and those joined to it. */
bool answer_formulas(struct str s, struct answer_parts *out);
/* Behind the last "answer is", "answer:" or "answer" before a formula; false when there is none. */
bool answer_cue(struct str s, struct str *rest);
/* The last written number with its fraction and power, or a \command beside it. */
bool answer_number(struct str s, struct str *out, size_t *end);
/* Words of a language rather than a formula, a number with its unit or a short text. */
bool answer_is_prose(struct str s);

#endif
