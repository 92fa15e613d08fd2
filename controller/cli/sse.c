/* SSE: lines into events. CR LF, LF end a line; an empty line ends an event. */
#include "controller/cli/sse.h"

void sse_init(struct sse *s, size_t max_bytes, bool (*on_event)(void *, struct str), void *ctx)
{
    *s = (struct sse){.on_event = on_event, .ctx = ctx};
    buf_init(&s->line, max_bytes);
    buf_init(&s->data, max_bytes);
}

static bool end_event(struct sse *s)
{
    bool go_on = !s->has_data || s->on_event(s->ctx, buf_str(&s->data));

    buf_reset(&s->data);
    s->has_data = false;
    return go_on;
}

static bool end_line(struct sse *s)
{
    struct str line = buf_str(&s->line);

    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n == 0)
        return end_event(s);
    if (!str_starts(line, STR("data:")))
        return true;
    line = str_slice(line, 5, line.n);
    if (str_starts(line, STR(" ")))
        line = str_slice(line, 1, line.n);
    if (s->has_data)
        buf_put_char(&s->data, '\n');
    buf_put_str(&s->data, line);
    s->has_data = true;
    return !s->data.failed;
}

bool sse_feed(struct sse *s, struct str piece)
{
    for (size_t i = 0; i < piece.n; i++) {
        if (piece.p[i] != '\n') {
            buf_put_char(&s->line, piece.p[i]);
            continue;
        }
        bool go_on = !s->line.failed && end_line(s);
        buf_reset(&s->line);
        if (!go_on)
            return false;
    }
    return !s->line.failed;
}

void sse_fini(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
}
