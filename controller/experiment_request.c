/* Arms from a list and a matrix; see the header. */
#include "controller/experiment_request.h"

#include "controller/guard.h"

#include <string.h>

enum { MAX_KNOBS = 8, MAX_VALUES = EXPERIMENT_ARMS };

static bool is_known(const struct experiment_request *q, const struct param_set *p)
{
    char mine[65], other[65];
    param_set_hash(p, mine);
    for (uint32_t k = 0; k < q->n_arm; k++) {
        param_set_hash(&q->arm[k], other);
        if (strcmp(mine, other) == 0)
            return true;
    }
    return false;
}

static int add_arm(const json_t *change, struct arena *a, struct experiment_request *q,
                   struct err *e)
{
    struct json_at at = json_root(change);
    struct param_set over = {0}, p = q->arm[0];
    int rc = json_get_object(&at, e);
    if (rc == ERR_OK)
        rc = param_set_decode(&at, a, &over, e);
    if (rc != ERR_OK)
        return err_wrap(e, "arm %u", q->n_arm);
    params_overlay(&p.defaults, &over.defaults);
    params_overlay(&p.caps, &over.caps);
    if (is_known(q, &p))
        return ERR_OK;
    rc = guard_check(q->route, &q->arm[0], &p, e);
    if (rc != ERR_OK)
        return err_wrap(e, "arm %u", q->n_arm);
    if (q->n_arm == EXPERIMENT_ARMS)
        return err_set(e, ERR_INVALID, "more than %d arms with the champion; leave some out",
                       EXPERIMENT_ARMS);
    q->arm[q->n_arm++] = p;
    return ERR_OK;
}

static int add_list(const struct json_at *at, struct arena *a, struct experiment_request *q,
                    struct err *e)
{
    struct json_at list = json_field(at, "arms");
    size_t n = 0;
    int rc = list.v ? json_get_array(&list, 64, &n, e) : ERR_OK;
    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        rc = add_arm(json_array_get(list.v, i), a, q, e);
    return rc;
}

/* The combination with this number, the last knob changing fastest. */
static int add_cell(const json_t *matrix, size_t number, struct arena *a,
                    struct experiment_request *q, struct err *e)
{
    const char *key;
    json_t *values, *cell = json_object();
    json_object_foreach((json_t *)matrix, key, values)
    {
        size_t n = json_array_size(values);
        json_object_set(cell, key, json_array_get(values, number % n));
        number /= n;
    }
    int rc = cell ? add_arm(cell, a, q, e) : err_set(e, ERR_NOMEM, "no memory for an arm");
    json_decref(cell);
    return rc;
}

static int add_matrix(const struct json_at *at, struct arena *a, struct experiment_request *q,
                      struct err *e)
{
    struct json_at matrix = json_field(at, "matrix");
    const char *key;
    json_t *values;
    size_t n_cells = 1;
    if (!matrix.v)
        return ERR_OK;
    int rc = json_get_object(&matrix, e);
    if (rc != ERR_OK)
        return rc;
    json_object_foreach((json_t *)matrix.v, key, values)
    {
        size_t n = json_array_size(values);
        if (n == 0 || n > MAX_VALUES || json_object_size(matrix.v) > MAX_KNOBS)
            return err_set(e, ERR_INVALID,
                           "matrix: %.40s: wants a list of 1 to %d values, such as "
                           "\"temperature\":[0.3,0.6]; at most %d knobs",
                           key, MAX_VALUES, MAX_KNOBS);
        n_cells *= n;
    }
    if (n_cells > 4 * EXPERIMENT_ARMS)
        return err_set(e, ERR_INVALID, "matrix: %zu combinations; at most %d arms", n_cells,
                       EXPERIMENT_ARMS);
    for (size_t i = 0; rc == ERR_OK && i < n_cells; i++)
        rc = add_cell(matrix.v, i, a, q, e);
    return rc;
}

/* A knob of the engine serves everybody at once: only time can be split. */
static int check_knobs(const struct json_at *at, struct experiment_request *q, struct err *e)
{
    struct params client = {0}, base, p;
    params_resolve(&q->arm[0], &client, &base);
    for (uint32_t k = 1; k < q->n_arm; k++) {
        params_resolve(&q->arm[k], &client, &p);
        for (int i = 0; i < PARAM_COUNT; i++)
            q->has_scheduler_knobs |=
                param_info((enum param_id)i)->is_scheduler && p.v[i] != base.v[i];
    }
    if (!q->has_scheduler_knobs || q->plan.law == LAW_SLICES)
        return ERR_OK;
    if (json_field(at, "law").v)
        return err_set(e, ERR_INVALID,
                       "law: max_running and prefill_chunk belong to the engine, not to a request: "
                       "such arms are compared by law \"slices\"");
    q->plan.law = LAW_SLICES;
    return ERR_OK;
}

int experiment_request_read(const struct json_at *at, const struct route_config *route,
                            const struct param_set *champion, struct arena *a,
                            struct experiment_request *out, struct err *e)
{
    *out = (struct experiment_request){.route = route, .n_arm = 1, .arm = {*champion}};
    out->has_seed = json_field(at, "seed").v != NULL;
    int rc = experiment_plan_decode(at, &out->plan, e);
    if (rc == ERR_OK)
        rc = add_list(at, a, out, e);
    if (rc == ERR_OK)
        rc = add_matrix(at, a, out, e);
    if (rc == ERR_OK && out->n_arm < 2)
        rc = err_set(e, ERR_INVALID,
                     "arms: at least one that differs from the champion, such as "
                     "{\"temperature\":0.5}");
    return rc == ERR_OK ? check_knobs(at, out, e) : rc;
}
