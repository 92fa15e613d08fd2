/* engine/reload.h - another file's weights, opened beside the ones that serve.
 *
 * Loop thread; only the load itself runs on a thread of its own, so that serving goes on. Whatever
 * goes wrong with the new file, nothing that serves has been touched. */
#ifndef ENGINE_RELOAD_H
#define ENGINE_RELOAD_H

#include "common/http_server.h"
#include "engine/load.h"

struct reload;

struct reload_config {
    struct http_server *server; /* whose loop runs on_end */
    const struct load *load;
    const struct engine_config *engine;
    /* m is the callee's; NULL after a failure, which e then tells. */
    void (*on_end)(void *ctx, uint64_t id, struct model *m, const struct err *e);
    void *ctx;
};

MUST_USE int reload_open(struct reload **out, const struct reload_config *c, struct err *e);
/* ERR_BUSY: one is under way. After ERR_OK on_end follows, unless the loop ends before. */
MUST_USE int reload_start(struct reload *r, uint64_t id, struct str path, struct err *e);
/* Waits for a load under way. */
void reload_close(struct reload *r);

#endif
