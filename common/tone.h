/* common/tone.h - colour for people: only on a terminal that shows it, and not where NO_COLOR is
 * set (no-color.org). Any thread. */
#ifndef COMMON_TONE_H
#define COMMON_TONE_H

#include <stdio.h>

enum tone { TONE_PLAIN, TONE_TITLE, TONE_GOOD, TONE_WARN, TONE_BAD, TONE_COUNT };

/* What to print before and after a coloured text; "" where there is no colour. */
const char *tone_begin(FILE *to, enum tone tone);
const char *tone_end(FILE *to, enum tone tone);

#endif
