/* engine/api/reader.h - the thread that parses and tokenises large bodies, so that running streams
 * do not wait for them: a JSON text of 4 MB takes 0.1 s. For engine/api only. */
#ifndef ENGINE_API_READER_H
#define ENGINE_API_READER_H

#include "common/err.h"
#include "common/http_server.h"

struct job;
struct reader;

/* Smaller bodies are read at once, on the I/O thread: 1 to 3 ms. */
enum { READER_LEAST_BYTES = 32 * 1024 };

/* done(job) runs on the I/O thread when j->read_error says how it went. */
MUST_USE int reader_open(struct reader **out, struct http_server *s, void (*done)(void *job),
                         struct err *e);
/* Waits for the body being read; no callback runs any more. I/O thread, after the loop ended. */
void reader_close(struct reader *r);
/* False: too many wait. */
bool reader_put(struct reader *r, struct job *j);

#endif
