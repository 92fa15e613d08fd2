/* controller/webhooks.h - the thread that delivers notices (notices.h) to their receivers.
 *
 * At least once: a notice is marked as sent after the receiver's 2xx, through the writer, and one
 * whose mark was lost is sent again with the same id. One POST at a time per webhook, so a slow or
 * dead receiver costs nobody else anything. Network errors, 5xx and 429 are tried again, with
 * growing pauses; any other answer gives the notice up. Signed as Standard Webhooks say
 * (https://github.com/standard-webhooks/standard-webhooks): webhook-id, webhook-timestamp and
 * webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY")). */
#ifndef CONTROLLER_WEBHOOKS_H
#define CONTROLLER_WEBHOOKS_H

#include "common/queue.h"
#include "controller/commands.h"

struct webhooks;

/* Reads the secrets. commands: where results for the writer go. */
MUST_USE int webhooks_open(struct webhooks **out, const struct milepost_config *c,
                           const char *database, struct queue *commands, struct err *e);
MUST_USE int webhooks_start(struct webhooks *w, struct err *e);
void webhooks_wake(struct webhooks *w);  /* any thread: there are new notices */
void webhooks_stop(struct webhooks *w);  /* waits for the thread */
void webhooks_close(struct webhooks *w); /* after the last command was answered */

/* How long to wait after so many failed attempts: doubled each time, up to ten minutes, and
 * shortened by up to half at random, so that receivers that come back are not met by all at once.
 */
int64_t webhooks_pause_us(int64_t first_ms, uint32_t attempts, double random);

#endif
