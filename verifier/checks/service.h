/* verifier/checks/service.h - what reward_model and judge share: an HTTP service with a key, its
 * limits, its self-test. */
#ifndef VERIFIER_CHECKS_SERVICE_H
#define VERIFIER_CHECKS_SERVICE_H

#include "verifier/check.h"
#include "verifier/remote/remote.h"

struct service {
    struct str url, key_env;
    const json_t *self_test; /* {prompt, better, worse, reference} or NULL */
    struct remote_limits limits;
    struct remote_lane *lane;
    const struct check_ops *ops; /* ask and read of the kind */
    const void *state;           /* of the kind */
    struct arena *arena;         /* of the kind */
};

#define SERVICE_OPTIONS(type, member)                                                              \
    {"url", OPTION_TEXT, offsetof(type, member.url), 0, 0, NULL, "whole address, http or https"},  \
        {"key_env",                                                                                \
         OPTION_TEXT,                                                                              \
         offsetof(type, member.key_env),                                                           \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "environment variable that holds the bearer key"},                                        \
        {"self_test",                                                                              \
         OPTION_JSON,                                                                              \
         offsetof(type, member.self_test),                                                         \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "prompt, better, worse, reference: two answers that must come out in order"},             \
        REMOTE_OPTIONS(type, member.limits)
enum { SERVICE_ANSWER_MAX_BYTES = 1024 * 1024 };

/* With defaults, before options_read. */
void service_init(struct service *s, const struct check_ops *ops, const void *state,
                  struct arena *a);
/* After options_read: opens the lane. built_in: the self-test when none is given, or NULL. */
MUST_USE int service_open(struct service *s, const char *built_in, struct err *e);
void service_close(struct service *s);

/* The prompt as one text: of a chat, the only message's content or "role: content" lines. In the
 * arena; p NULL when memory is out. */
struct str service_prompt(const struct output *o, struct arena *a);
/* The answer as JSON; NULL and *is_broken when it is none. */
json_t *service_parse(struct str answer, bool *is_broken);

#endif
