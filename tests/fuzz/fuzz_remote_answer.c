/* What a service or a worker process may answer: every remote kind reads any bytes without a crash,
 * and what it calls scored lies within [0,1]. The first byte chooses the kind. */
#include "verifier/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define URL "\"url\":\"http://127.0.0.1:9/\""
static const struct {
    const char *kind, *params;
} KINDS[] = {
    {"reward_model", "{" URL ",\"api\":\"sglang\",\"normalise\":\"sigmoid\"}"},
    {"reward_model", "{" URL ",\"api\":\"vllm\"}"},
    {"reward_model", "{" URL ",\"api\":\"tei\",\"normalise\":\"z_score\"}"},
    {"reward_model", "{" URL ",\"api\":\"remote_rm\",\"normalise\":\"min_max\"}"},
    {"reward_model", "{" URL ",\"api\":\"engine\"}"},
    {"judge", "{" URL ",\"model\":\"m\",\"rubric\":\"r\"}"},
    {"command", "{\"program\":[\"/bin/true\"]}"},
    {"code", "{\"program\":[\"/bin/true\"]}"},
};

static void read_one(const struct check_ops *ops, const char *params, struct str answer)
{
    json_t *p = json_loads(params, 0, NULL);
    struct json_at at = json_root(p);
    void *state = NULL;
    struct arena a;
    struct output o = {.request_id = STR("r1")};
    bool is_broken;
    if (ops->open(&state, &at, NULL) != ERR_OK)
        abort();
    arena_init(&a, MiB);
    struct check_item item = {.output = &o, .arena = &a};
    struct check_verdict v = ops->read(state, &item, answer, &is_broken);
    if (!v.reason || (v.outcome != SCORE_UNSCORED && !(v.value >= 0 && v.value <= 1)) ||
        (is_broken && v.outcome != SCORE_UNSCORED))
        abort();
    ops->close(state);
    arena_free(&a);
    json_decref(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t i = data[0] % (sizeof KINDS / sizeof *KINDS);
    read_one(check_find(str_from(KINDS[i].kind)), KINDS[i].params,
             (struct str){(const char *)data + 1, size - 1});
    return 0;
}
