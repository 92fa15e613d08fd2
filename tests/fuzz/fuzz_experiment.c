/* An operator's request for an experiment: whatever comes, it is refused or it is within every
 * bound, and a plan that was written reads back as itself. */
#include "controller/experiment_request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_arms(const struct experiment_request *q)
{
    if (q->n_arm < 2 || q->n_arm > EXPERIMENT_ARMS)
        abort();
    for (uint32_t k = 0; k < q->n_arm; k++) {
        for (int i = 0; i < PARAM_COUNT; i++) {
            const struct param_info *info = param_info((enum param_id)i);
            double v = params_get(&q->arm[k].defaults, (enum param_id)i);
            if (!(v >= info->min && v <= info->max))
                abort();
        }
    }
}

static void check_plan(const struct experiment_plan *p)
{
    struct experiment_plan again;
    json_t *o = json_object();
    if (!o || !experiment_plan_encode(p, o))
        abort();
    struct json_at at = json_root(o);
    if (experiment_plan_decode(&at, &again, NULL) != ERR_OK || again.law != p->law ||
        again.alpha != p->alpha || again.floor != p->floor || again.max_units != p->max_units ||
        again.seed != p->seed || again.max_us <= again.min_us)
        abort();
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct err e;
    json_t *v = NULL;
    struct param_set champion = {0};
    static struct experiment_request q;
    if (json_parse((struct str){(const char *)data, size}, JSON_UNIQUE_KEYS, &v, NULL) != ERR_OK)
        return 0;
    arena_init(&a, 1 << 20);
    struct json_at at = json_root(v);
    if (params_put(&champion.defaults, PARAM_TEMPERATURE, 0.7, NULL) == ERR_OK &&
        experiment_request_read(&at, NULL, &champion, &a, &q, &e) == ERR_OK) {
        check_arms(&q);
        check_plan(&q.plan);
    }
    arena_free(&a);
    json_decref(v);
    return 0;
}
