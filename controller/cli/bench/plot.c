/* SVG by hand: rectangles and polylines. More than MAX_ROWS requests are thinned evenly. */
#include "controller/cli/bench/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 900, LEFT = 60, BOTTOM = 24, ROW = 3, MAX_ROWS = 300, PANEL = 160, N_POINTS = 200 };

static void put_escaped(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else
            fputc(*text, f);
    }
}

static void axis(FILE *f, double most, int height, const char *unit)
{
    for (int i = 0; i <= 4; i++) {
        double x = LEFT + (WIDTH - LEFT) * i / 4.0;
        fprintf(f,
                "<line class='g' x1='%.1f' y1='0' x2='%.1f' y2='%d'/>"
                "<text x='%.1f' y='%d' text-anchor='%s'>%.4g %s</text>",
                x, x, height, x, height + 16, i == 4 ? "end" : "middle", most * i / 4, unit);
    }
}

static double x_of(uint64_t at_us, uint64_t begin_us, double span_us)
{
    double us = at_us > begin_us ? (double)(at_us - begin_us) : 0;

    return LEFT + (WIDTH - LEFT) * us / span_us;
}

static void put_request(FILE *f, const struct shot *s, uint64_t begin_us, double span_us, int y)
{
    double due = x_of(s->due_us, begin_us, span_us), end = x_of(s->end_us, begin_us, span_us);
    double first = s->first_us > 0 ? x_of(s->first_us, begin_us, span_us) : end;

    fprintf(f, "<rect class='%s' x='%.1f' y='%d' width='%.1f' height='%d'/>", s->is_ok ? "w" : "x",
            due, y, first - due, ROW - 1);
    fprintf(f, "<rect class='s' x='%.1f' y='%d' width='%.1f' height='%d'/>", first, y, end - first,
            ROW - 1);
}

static void time_line(FILE *f, const struct summary *s, const struct shot *shots, uint32_t n,
                      uint64_t begin_us)
{
    double span_us = s->seconds > 0 ? s->seconds * 1e6 : 1;
    uint32_t step = s->n_sent > MAX_ROWS ? (s->n_sent + MAX_ROWS - 1) / MAX_ROWS : 1, seen = 0;
    int height = (int)((s->n_sent + step - 1) / step) * ROW + ROW, y = 0;

    fprintf(f,
            "<h2>Requests: <span class='kw'>waiting</span> for the first token, then "
            "<span class='ks'>streaming</span>%s</h2><svg viewBox='0 0 %d %d'>",
            step > 1 ? " (thinned)" : "", WIDTH, height + BOTTOM);
    axis(f, s->seconds, height, "s");
    for (uint32_t i = 0; i < n; i++) {
        if (shots[i].start_us == 0 || seen++ % step != 0)
            continue;
        put_request(f, &shots[i], begin_us, span_us, y);
        y += ROW;
    }
    fputs("</svg>", f);
}

static void distribution(FILE *f, const char *name, const struct series *s)
{
    double most = series_at(s, 1);

    if (s->n == 0 || !(most > 0))
        return;
    fprintf(f,
            "<h2>%s: p50 %.4g ms, p90 %.4g ms, p99 %.4g ms, worst %.4g ms, %zu values</h2>"
            "<svg viewBox='0 0 %d %d'>",
            name, series_at(s, 0.5), series_at(s, 0.9), series_at(s, 0.99), most, s->n, WIDTH,
            PANEL + BOTTOM);
    axis(f, most, PANEL, "ms");
    fputs("<text x='0' y='12'>100%</text><text x='0' y='160'>0%</text><polyline points='", f);
    for (int i = 0; i <= N_POINTS; i++) {
        double q = i / (double)N_POINTS;
        fprintf(f, "%.1f,%.1f ", LEFT + (WIDTH - LEFT) * series_at(s, q) / most, PANEL * (1 - q));
    }
    fputs("'/></svg>", f);
}

static void head(FILE *f, const char *title, const struct summary *s)
{
    fputs("<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>milepost bench serve"
          "</title><style>body{font:14px sans-serif;max-width:960px;margin:24px auto;color:#222}"
          "h1{font-size:18px}h2{font-size:14px;margin:24px 0 4px}svg{width:100%}"
          "text{font:11px sans-serif;fill:#555}.g{stroke:#ddd}.w{fill:#f2b84b}.s{fill:#2f6fb0}"
          ".x{fill:#c0392b}.kw{color:#b07a10}.ks{color:#2f6fb0}"
          "polyline{fill:none;stroke:#2f6fb0;stroke-width:2}</style></head><body><h1>",
          f);
    put_escaped(f, title);
    fprintf(f,
            "</h1><p>%u of %u requests answered in %.2f s; %.1f output tokens/s; %u met the "
            "limits</p>",
            s->n_ok, s->n_sent, s->seconds,
            s->seconds > 0 ? (double)s->completion_tokens / s->seconds : 0, s->n_good);
}

int plot_write(const char *path, const char *title, const struct summary *s,
               const struct shot *shots, uint32_t n, uint64_t begin_us, struct err *e)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return err_set(e, ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    head(f, title, s);
    time_line(f, s, shots, n, begin_us);
    distribution(f, "Time to first token", &s->ttft);
    distribution(f, "Gap between tokens", &s->gap);
    distribution(f, "End to end", &s->e2e);
    fputs("</body></html>\n", f);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return err_set(e, ERR_IO, "%s: not all could be written", path);
    return ERR_OK;
}
