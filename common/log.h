/* common/log.h - one line = one event, logfmt on stderr, from any thread.
 *
 *   log_event(LOG_INFO, "sched.preempt", "req=%s blocks=%u", id, n);
 *   -> ts=2026-01-31T12:34:56.789Z lvl=info proc=engine ev=sched.preempt req=r1 blocks=4
 *
 * Event names are stable. No prompt or output text above debug. A value that may hold spaces or
 * quotes goes through log_quote. The same event from one call site more than LOG_BURST times in a
 * second is counted and summarised. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum { LOG_BURST = 50 };

/* Once, in main, before threads start. process is a literal. */
void log_setup(const char *process, enum log_level least);
bool log_level_parse(struct str s, enum log_level *out);
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* "text" with quotes and escapes into out[cap]; returns out. Cut when too long. */
const char *log_quote(struct str s, char *out, size_t cap);

#endif
