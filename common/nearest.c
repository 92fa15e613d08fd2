/* Edit distance with adjacent transpositions (optimal string alignment): the mistakes people make
 * in configuration keys are a letter missing, doubled, swapped or wrong. Pure; any thread. */
#include "common/nearest.h"

#include <string.h>

enum { NAME_MAX_LEN = 63 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static size_t edit_distance(struct str a, struct str b)
{
    size_t row[3][NAME_MAX_LEN + 1]; /* two rows back, one row back, this row */
    for (size_t j = 0; j <= b.n; j++)
        row[1][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        row[2][0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t swap_cost = a.p[i - 1] != b.p[j - 1];
            row[2][j] = min3(row[1][j] + 1, row[2][j - 1] + 1, row[1][j - 1] + swap_cost);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] &&
                row[0][j - 2] + 1 < row[2][j])
                row[2][j] = row[0][j - 2] + 1;
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][b.n];
}

const char *nearest_name(struct str s, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t best_distance = 0;
    if (s.n == 0 || s.n > NAME_MAX_LEN)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        struct str name = str_from(names[i]);
        if (name.n == 0 || name.n > NAME_MAX_LEN)
            continue;
        size_t distance = edit_distance(s, name);
        size_t longer = name.n > s.n ? name.n : s.n;
        if (distance * 3 <= longer && (!best || distance < best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
