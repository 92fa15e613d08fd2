/* Line by line; a text has some hundred lines and is read a few times. */
#include "controller/cli/readings.h"

#include <math.h>
#include <string.h>

struct series {
    struct str name, labels; /* without braces */
    double value;
};

/* NAME[{LABELS}] VALUE; label values may hold braces and blanks, so the last ones count. */
static bool read_series(struct str line, struct series *out)
{
    ptrdiff_t blank = -1, brace = str_find(line, STR("{"), 0);
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] == ' ')
            blank = (ptrdiff_t)i;
    if (blank <= 0 || line.p[0] == '#' ||
        str_to_f64(str_slice(line, (size_t)blank + 1, line.n), &out->value, NULL) != ERR_OK)
        return false;
    struct str head = str_slice(line, 0, (size_t)blank);
    bool has_labels = brace >= 0 && brace < blank && str_ends(head, STR("}"));
    out->name = has_labels ? str_slice(head, 0, (size_t)brace) : head;
    out->labels = has_labels ? str_slice(head, (size_t)brace + 1, head.n - 1) : STR("");
    return true;
}

/* The next series of that name. */
static bool next_series(struct str *rest, const char *name, struct series *out)
{
    struct str line;
    while (str_split(rest, '\n', &line))
        if (read_series(line, out) && str_eq_c(out->name, name))
            return true;
    return false;
}

double readings_sum(struct str text, const char *name)
{
    struct series s;
    double sum = 0;
    while (next_series(&text, name, &s))
        sum += s.value;
    return sum;
}

double readings_least(struct str text, const char *name)
{
    struct series s;
    double least = NAN;
    while (next_series(&text, name, &s))
        least = s.value < least || isnan(least) ? s.value : least;
    return least;
}

static double value_of(struct str text, const char *name, struct str labels)
{
    struct series s;
    while (next_series(&text, name, &s))
        if (str_eq(s.labels, labels))
            return s.value;
    return 0;
}

/* What stands between quotes after LABEL=; values of ours hold no quotes. */
static struct str label_value(struct str labels, const char *label)
{
    size_t n = strlen(label);
    for (ptrdiff_t at = 0; (at = str_find(labels, str_from(label), (size_t)at)) >= 0; at++) {
        struct str rest = str_slice(labels, (size_t)at + n, labels.n);
        bool begins = at == 0 || labels.p[at - 1] == ',';
        if (!begins || !str_starts(rest, STR("=\"")))
            continue;
        ptrdiff_t end = str_find(rest, STR("\""), 2);
        return end < 0 ? STR("") : str_slice(rest, 2, (size_t)end);
    }
    return STR("");
}

struct str readings_most_grown(struct str before, struct str text, const char *name,
                               const char *label)
{
    struct series s;
    struct str most = STR("");
    double grown = 0;
    while (next_series(&text, name, &s)) {
        double by = s.value - value_of(before, name, s.labels);
        if (by <= grown)
            continue;
        grown = by;
        most = label_value(s.labels, label);
    }
    return most;
}
