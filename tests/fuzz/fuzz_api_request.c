/* Request bodies of both kinds: what is accepted keeps its limits, what is refused has a message.
 */
#include "engine/api/request.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const struct api_request *r)
{
    bool has_text = r->kind == API_CHAT ? r->n_messages > 0 : r->prompt.p || r->n_ids > 0;
    if (!has_text || r->n < 1 || r->n > API_MAX_CHOICES || r->n_top > GEN_MAX_TOP)
        abort();
    if (r->client.n_stop > PARAMS_MAX_STOP || r->n_bias > GEN_MAX_BIAS)
        abort();
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct param_info *info = param_info((enum param_id)i);
        double v = params_get(&r->client, (enum param_id)i);
        if (!(v >= info->min && v <= info->max))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int kind = API_CHAT; kind <= API_COMPLETION; kind++) {
        struct arena a;
        struct api_request r;
        struct err e = {0};
        arena_init(&a, 64 * MiB);
        struct str body = {(const char *)data, size};
        if (api_request_parse(body, (enum api_kind)kind, &a, &r, &e) == ERR_OK)
            check_accepted(&r);
        else if (e.msg[0] == '\0')
            abort();
        api_request_close(&r);
        arena_free(&a);
    }
    return 0;
}
