/* controller/store/notices.h - what webhooks must be told, and what became of it.
 *
 * Rows are added and ended by the writer; the sender reads them on a connection of its own. */
#ifndef CONTROLLER_STORE_NOTICES_H
#define CONTROLLER_STORE_NOTICES_H

#include "controller/store/store.h"

enum notice_state { NOTICE_WAITS, NOTICE_SENT, NOTICE_GIVEN_UP };

struct stored_notice {
    int64_t id;
    struct str webhook, key, event, body;
    int64_t created_us, next_us; /* not to be tried before */
    enum notice_state state;
    uint32_t attempts;
    struct str answer; /* what the last attempt met */
};

/* Nothing when this webhook has a notice of this key already. */
MUST_USE int store_add_notice(struct store *s, const struct stored_notice *n, struct err *e);
/* After an attempt: state, attempts, next_us and answer of the row n->id. Forgets the oldest of
 * those that are over when there are many. */
MUST_USE int store_note_attempt(struct store *s, const struct stored_notice *n, int64_t now_us,
                                struct err *e);
/* The one that waits for longest past its time; texts in the arena. ERR_NOT_FOUND: none is due. */
MUST_USE int store_next_notice(struct store *s, struct str webhook, int64_t now_us, struct arena *a,
                               struct stored_notice *out, struct err *e);
MUST_USE int store_count_waiting(struct store *s, struct str webhook, int64_t *out, struct err *e);
/* Gives up what waits for a webhook that is none of the names (JSON array text). */
MUST_USE int store_drop_notices(struct store *s, struct str names, int64_t now_us, int64_t *n,
                                struct err *e);

#endif
