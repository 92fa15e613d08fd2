/* controller/store/retention.h - what need not be kept for ever: outputs' texts, sums by hour.
 *
 * Columns, scores, hashes and events stay: they are what the laws were fed, so that replay proves
 * every decision from the first row on; of an expired text its SHA-256 stands for it. Writer
 * thread, in a batch. */
#ifndef CONTROLLER_STORE_RETENTION_H
#define CONTROLLER_STORE_RETENTION_H

#include "controller/store/store.h"

/* Drops the texts of the oldest outputs admitted before cutoff_us, at most `limit` outputs looked
 * at. *n = how many; less than the limit: nothing more to do now. */
MUST_USE int store_expire_texts(struct store *s, int64_t cutoff_us, int64_t limit, int64_t *n,
                                struct err *e);
/* Drops sums of hours before cutoff_us. */
MUST_USE int store_expire_rollups(struct store *s, int64_t cutoff_us, struct err *e);
/* The first output whose text must be there; 1 = none has expired. */
MUST_USE int store_texts_from(struct store *s, int64_t *id, struct err *e);

#endif
