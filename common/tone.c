/* ECMA-48, "select graphic rendition"; the plain eight colours, which every theme keeps readable.
 */
#include "common/tone.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_coloured(FILE *to, enum tone tone)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return tone != TONE_PLAIN && isatty(fileno(to)) == 1 && (!no || !no[0]) && terminal &&
           strcmp(terminal, "dumb") != 0;
}

const char *tone_begin(FILE *to, enum tone tone)
{
    static const char *const BEGIN[TONE_COUNT] = {"", "\033[1m", "\033[32m", "\033[33m",
                                                  "\033[31m"};
    return is_coloured(to, tone) ? BEGIN[tone] : "";
}

const char *tone_end(FILE *to, enum tone tone)
{
    return is_coloured(to, tone) ? "\033[0m" : "";
}
