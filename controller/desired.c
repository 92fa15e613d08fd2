/* From the laws' views to one document. */
#include "controller/desired.h"

#include "common/hash.h"

#include <string.h>

/* An arm without a share is left out, but for the champion: it serves while the route is paused.
 * The name says which shares were in force, so that the law knows every arm's at an admission. */
static int fill_arms(const struct desired_source *s, struct arena *a, struct desired_route *out,
                     struct err *e)
{
    out->experiment =
        arena_printf(a, "%s.%llu", s->view->experiment, (unsigned long long)s->view->allocation);
    out->n_arm = 0;
    for (uint32_t k = 0; k < s->view->n_arm && out->n_arm < CONTROL_MAX_ARMS; k++) {
        double share = s->view->arm_share[k];
        if (k > 0 && share <= 0.0)
            continue;
        struct str name = k ? arena_printf(a, "arm-%u", k) : STR("champion");
        out->arm[out->n_arm++] = (struct desired_arm){name, share, s->arm[k]};
        if (!name.p)
            return err_set(e, ERR_NOMEM, "no memory for the desired state");
    }
    return out->experiment.p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for the desired state");
}

static void fill_route(const struct desired_source *s, struct desired_route *out)
{
    bool has_challenger = s->challenger != NULL && s->view->share > 0.0;
    double share = has_challenger ? s->view->share : 0.0;
    *out = (struct desired_route){.name = s->route,
                                  .salt = s->salt,
                                  .is_paused = strcmp(s->view->phase, "safe") == 0,
                                  .n_arm = 1};
    out->arm[0] = (struct desired_arm){STR("champion"), 1.0 - share, *s->champion};
    if (!has_challenger)
        return;
    out->experiment = str_from(s->view->experiment);
    out->arm[1] = (struct desired_arm){STR("challenger"), share, *s->challenger};
    out->n_arm = 2;
}

int desired_build(const struct desired_source *source, uint32_t n, uint64_t version,
                  struct arena *a, struct desired *out, struct err *e)
{
    *out = (struct desired){.version = version};
    if (n > CONTROL_MAX_ROUTES)
        return err_set(e, ERR_INVALID, "%u routes; at most %d", n, CONTROL_MAX_ROUTES);
    out->route = arena_array(a, n ? n : 1, sizeof *out->route);
    if (!out->route)
        return err_set(e, ERR_NOMEM, "no memory for the desired state");
    out->n_route = n;
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < n; i++) {
        fill_route(&source[i], &out->route[i]);
        if (source[i].arm)
            rc = fill_arms(&source[i], a, &out->route[i], e);
    }
    return rc;
}

int desired_hash(const struct desired *d, char out[65], struct err *e)
{
    struct control c = {.type = CONTROL_DESIRED, .desired = *d};
    struct buf b;
    buf_init(&b, 4 * MiB);
    c.desired.version = 1;
    int rc = control_encode(&c, &b, e);
    if (rc == ERR_OK)
        sha256_hex(buf_str(&b), out);
    buf_free(&b);
    return rc;
}
