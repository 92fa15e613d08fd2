/* verifier/score_server.h - POST /score: the route's checks as a reward server (remote_rm of Miles
 * and slime), on threads of its own beside the pipeline's. */
#ifndef VERIFIER_SCORE_SERVER_H
#define VERIFIER_SCORE_SERVER_H

#include "common/http_server.h"
#include "verifier/crew.h"

struct score_server;

/* Adds its route to the server, which must not run yet. key (empty = none), crew.judge and
 * crew.remote stay valid until close. */
MUST_USE int score_server_open(struct score_server **out, struct http_server *server,
                               struct str key, const struct crew_config *crew, struct err *e);
/* While the server's loop still runs; answers what is under way or refuses it with 503. */
void score_server_close(struct score_server *s, uint32_t grace_ms); /* NULL is fine */
void score_server_free(struct score_server *s);                     /* after the loop ended */

#endif
