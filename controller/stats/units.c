/* controller/stats/units.c - averaging the turns of a conversation.
 *
 * Invariant: a session is open at most once and never both open and remembered as closed. Pure. */
#include "controller/stats/units.h"

#include <string.h>

static bool is_closed(const struct units *u, uint64_t session)
{
    for (uint32_t i = 0; i < u->n_closed; i++)
        if (u->closed[i] == session)
            return true;
    return false;
}

static void merge(struct unit *to, const struct unit *row)
{
    for (int i = 0; i < UNIT_VALUES; i++) {
        if (row->n[i] == 0)
            continue;
        double sum = to->n[i] ? to->value[i] * to->n[i] : 0.0;
        to->n[i] += row->n[i];
        to->value[i] = (sum + row->value[i] * row->n[i]) / to->n[i];
    }
}

bool units_add(struct units *u, const struct unit *row, bool *is_new)
{
    *is_new = false;
    for (uint32_t i = 0; i < u->n_open; i++) {
        struct unit *o = &u->open[i];
        if (o->session != row->session)
            continue;
        if (o->is_challenger != row->is_challenger) {
            u->n_excluded++;
            return false;
        }
        merge(o, row);
        return true;
    }
    if (is_closed(u, row->session) || u->n_open == UNITS_OPEN) {
        u->n_excluded++;
        return false;
    }
    *is_new = true;
    u->open[u->n_open++] = *row;
    return true;
}

bool units_take(struct units *u, uint64_t now_us, uint64_t window_us, struct unit *out)
{
    if (u->n_open == 0)
        return false;
    uint64_t opened = u->open[0].opened_us;
    bool is_due = now_us >= opened && now_us - opened >= window_us;
    if (!is_due && u->n_open < UNITS_OPEN)
        return false;
    *out = u->open[0];
    u->n_open--;
    memmove(&u->open[0], &u->open[1], u->n_open * sizeof u->open[0]);
    u->closed[u->at] = out->session;
    u->at = (u->at + 1) % UNITS_REMEMBERED;
    if (u->n_closed < UNITS_REMEMBERED)
        u->n_closed++;
    return true;
}

uint64_t units_wake_us(const struct units *u, uint64_t window_us)
{
    return u->n_open ? u->open[0].opened_us + window_us : 0;
}
