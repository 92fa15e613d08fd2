/* controller/board.h - what the writer thread shows to the HTTP thread: ready-made JSON texts.
 *
 * The writer puts, the HTTP thread takes copies; one lock, held for a pointer swap. */
#ifndef CONTROLLER_BOARD_H
#define CONTROLLER_BOARD_H

#include "controller/control_server.h"

enum { BOARD_TREND_POINTS = 240 };

struct board;
struct board *board_new(void); /* NULL = no memory */
void board_free(struct board *b);

bool board_is_ready(struct board *b); /* there was a first put */
/* HTTP thread: appends the latest text; nothing before the first put. */
void board_status(struct board *b, struct buf *out);
/* {"default":[{"at_us":..,"tests":{"rollback":1.2,...}}, ...]} */
void board_trend(struct board *b, struct buf *out);

struct board_facts {
    const struct ledger *ledger;
    const struct control_server *engines;
    const char *database, *version;
    int64_t stale_ms, now_us;
    struct mono now;
    struct store *store; /* for the arms' parameters */
};
/* Writer thread. */
MUST_USE int board_put(struct board *b, const struct board_facts *f, struct err *e);

#endif
