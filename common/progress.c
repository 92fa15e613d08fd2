/* A bar of fixed width after its label, then percent and note. Nothing is kept but when a plain
 * line was last printed. */
#include "common/progress.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR_CELLS = 28, PLAIN_EVERY_US = 10000000 };

void progress_start(struct progress *p, const char *label, uint64_t total)
{
    *p = (struct progress){
        .label = label, .total = total, .is_terminal = isatty(STDERR_FILENO) == 1};
}

static bool is_due(struct progress *p)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    bool due = !p->is_begun || mono_since_us(p->last, now) >= PLAIN_EVERY_US;

    if (due)
        p->last = now;
    p->is_begun = true;
    return due;
}

void progress_show(struct progress *p, uint64_t done, const char *note)
{
    static const char full[] = "############################",
                      none[] = "............................";
    int percent = p->total > 0 ? (int)(done * 100 / p->total) : 100;
    int cells = percent * BAR_CELLS / 100;

    percent = percent > 100 ? 100 : percent;
    cells = cells > BAR_CELLS ? BAR_CELLS : cells;
    if (p->is_terminal)
        fprintf(stderr, "\r\033[K%s [%.*s%.*s] %3d%% %s", p->label, cells, full, BAR_CELLS - cells,
                none, percent, note);
    else if (is_due(p))
        fprintf(stderr, "%s %s\n", p->label, note);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->is_terminal)
        fputs("\r\033[K", stderr);
}
