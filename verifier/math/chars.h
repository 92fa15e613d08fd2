/* verifier/math/chars.h - questions about single bytes; a NUL is one of nothing. */
#ifndef VERIFIER_MATH_CHARS_H
#define VERIFIER_MATH_CHARS_H

#include "common/str.h"

#include <string.h>

static inline bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static inline bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* NUL behind the end. */
static inline char char_at(struct str s, size_t i)
{
    return i < s.n ? s.p[i] : '\0';
}

/* word: lower-case letters. */
static inline bool starts_folded(struct str s, size_t i, const char *word)
{
    for (size_t k = 0; word[k]; k++)
        if ((char_at(s, i + k) | 32) != word[k])
            return false;
    return true;
}

#endif
