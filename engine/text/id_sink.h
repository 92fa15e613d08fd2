/* engine/text/id_sink.h - token ids into a caller's array, counting those that find no room.
 *
 * n is the number needed; ids past cap are counted, not written. One owner. */
#ifndef ENGINE_TEXT_ID_SINK_H
#define ENGINE_TEXT_ID_SINK_H

#include <stddef.h>
#include <stdint.h>

struct id_sink {
    int32_t *ids;
    size_t cap, n;
};

static inline void id_sink_put(struct id_sink *s, int32_t id)
{
    if (s->n < s->cap)
        s->ids[s->n] = id;
    s->n++;
}

#endif
