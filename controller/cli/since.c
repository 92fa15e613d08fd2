/* Ages and dates. Pure. */
#include "controller/cli/since.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool parse_age(const char *text, struct wall now, struct wall *out)
{
    static const struct {
        char unit;
        int64_t seconds;
    } UNITS[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    long long n = strtoll(text, &end, 10);

    if (end == text || n < 0 || n > 1000000 || end[0] == '\0' || end[1] != '\0')
        return false;
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (UNITS[i].unit == end[0]) {
            out->us = now.us - n * UNITS[i].seconds * 1000000;
            return true;
        }
    }
    return false;
}

int since_parse(const char *text, struct wall now, struct wall *out, struct err *e)
{
    static const char *const FORMS[] = {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
                                        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M"};

    if (parse_age(text, now, out))
        return ERR_OK;
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        struct tm t = {0};
        const char *end = strptime(text, FORMS[i], &t);
        if (end == NULL || (strcmp(end, "") != 0 && strcmp(end, "Z") != 0))
            continue;
        out->us = (int64_t)timegm(&t) * 1000000;
        return ERR_OK;
    }
    return err_set(e, ERR_INVALID,
                   "--since: found '%.40s', allowed: an age (90m, 2h, 7d) or a date in UTC "
                   "(2026-01-31, 2026-01-31 12:30)",
                   text);
}
