/* engine/load.h - the model file and everything read from it. Blocks for the load. */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include "engine/generator.h"
#include "engine/text/chat_template.h"
#include "schemas/config.h"

enum { LOAD_MAX_END_IDS = 64 };

struct comm;

struct load {
    struct gguf *file;
    struct comm *ranks; /* NULL: one process */
    struct tokenizer *tokenizer;
    const struct chat_template *chat_template;
    struct model *model;
    struct str name; /* in the API; in the arena */
    uint32_t n_kv_blocks, max_context;
    int32_t end_ids[LOAD_MAX_END_IDS];
    uint32_t n_end;
};

/* Messages begin with the file's path. Close it also after a failure. ranks: that compute it
 * together with this process; NULL: none. */
MUST_USE int load_open(struct load *l, const struct engine_config *c, struct comm *ranks,
                       struct arena *a, struct err *e);
/* The model of another rank than the first, of the same configuration. */
MUST_USE int load_rank(struct model **out, const struct engine_config *c, struct comm *ranks,
                       struct arena *a, struct err *e);
void load_close(struct load *l);
/* Weights and KV pool of a backend with memory of its own; 0 for others. */
uint64_t load_device_bytes(const struct load *l, const struct engine_config *c);
/* Another file's weights for what l serves: the vocabulary must be the same, token by token, and
 * the KV pool gets the same size. Blocks for the load; any thread, while l stays open.
 * ERR_UNSUPPORTED with several ranks. */
MUST_USE int load_other_weights(struct model **out, const struct load *l,
                                const struct engine_config *c, const char *path, struct err *e);

#endif
