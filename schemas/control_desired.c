/* The desired document: routes with their arms and the revisions these serve.
 *
 * An engine applies what passes here without another look, so everything admission relies on is
 * checked: at least one arm, the champion first, shares that sum to one, names that are unique. */
#include "schemas/control_desired.h"

#include "schemas/codec.h"

#include <math.h>

static const struct codec_field ROUTE[] = {
    {"name", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct desired_route, name), 0,
     CODEC_MAX_NAME},
    {"experiment", CODEC_TEXT, CODEC_SKIP_EMPTY, offsetof(struct desired_route, experiment), 0,
     CODEC_MAX_NAME},
    {"salt", CODEC_TEXT, CODEC_SKIP_EMPTY, offsetof(struct desired_route, salt), 0, CODEC_MAX_NAME},
    {"paused", CODEC_BOOL, 0, offsetof(struct desired_route, is_paused), 0, 0},
};

static const struct codec_field ARM[] = {
    {"name", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct desired_arm, name), 0,
     CODEC_MAX_NAME},
    {"share", CODEC_REAL, CODEC_REQUIRED, offsetof(struct desired_arm, share), 0, 1},
};

enum { N_ROUTE_FIELD = sizeof ROUTE / sizeof *ROUTE, N_ARM_FIELD = sizeof ARM / sizeof *ARM };

static const double SHARE_TOLERANCE = 1e-6;

/* Writing. */

/* Takes item; keeps the first error. */
static int append(json_t *list, json_t *item, int rc, struct err *e)
{
    if (json_array_append_new(list, item) != 0 && rc == ERR_OK)
        rc = err_set(e, ERR_NOMEM, "out of memory for a desired state");
    return rc;
}

static int write_arms(const struct desired_route *r, json_t *obj, struct err *e)
{
    json_t *list = json_array();
    int rc = ERR_OK;
    for (uint32_t i = 0; i < r->n_arm && i < CONTROL_MAX_ARMS && rc == ERR_OK; i++) {
        json_t *arm = json_object();
        rc = codec_write(arm, ARM, N_ARM_FIELD, &r->arm[i], e);
        if (rc == ERR_OK)
            rc = codec_put(arm, "revision", revision_encode(&r->arm[i].revision), e);
        rc = append(list, arm, rc, e);
    }
    int put_rc = codec_put(obj, "arms", list, e);
    return rc != ERR_OK ? rc : put_rc;
}

int desired_write(const struct desired *d, json_t *obj, struct err *e)
{
    json_t *list = json_array();
    int rc = codec_put(obj, "version", json_integer((json_int_t)d->version), e);
    for (uint32_t i = 0; i < d->n_route && rc == ERR_OK; i++) {
        json_t *route = json_object();
        rc = codec_write(route, ROUTE, N_ROUTE_FIELD, &d->route[i], e);
        if (rc == ERR_OK)
            rc = write_arms(&d->route[i], route, e);
        rc = append(list, route, rc, e);
    }
    int put_rc = codec_put(obj, "routes", list, e);
    return rc != ERR_OK ? rc : put_rc;
}

/* Reading. */

static int check_arms(const struct desired_route *r, struct err *e)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->n_arm; i++) {
        sum += r->arm[i].share;
        for (uint32_t j = 0; j < i; j++) {
            if (str_eq(r->arm[i].name, r->arm[j].name))
                return err_set(e, ERR_INVALID, "route %.60s: two arms named %.60s", r->name.p,
                               r->arm[i].name.p);
        }
    }
    if (r->n_arm == 0 || !str_eq_c(r->arm[0].name, "champion"))
        return err_set(e, ERR_INVALID, "route %.60s: the first arm must be \"champion\"",
                       r->name.p);
    if (fabs(sum - 1) > SHARE_TOLERANCE)
        return err_set(e, ERR_INVALID, "route %.60s: shares of the arms sum to %.9g, not 1",
                       r->name.p, sum);
    return ERR_OK;
}

static int read_arm(const struct json_at *at, struct arena *a, struct desired_arm *out,
                    struct err *e)
{
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        rc = codec_read(at, ARM, N_ARM_FIELD, a, out, e);
    struct json_at revision = json_field(at, "revision");
    if (rc == ERR_OK)
        rc = revision_decode(&revision, a, &out->revision, e);
    return rc;
}

static int read_route(const struct json_at *at, struct arena *a, struct desired_route *out,
                      struct err *e)
{
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        rc = codec_read(at, ROUTE, N_ROUTE_FIELD, a, out, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at arms = json_field(at, "arms");
    size_t n = 0;
    rc = json_get_array(&arms, CONTROL_MAX_ARMS, &n, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&arms, i);
        rc = read_arm(&item, a, &out->arm[i], e);
    }
    out->n_arm = (uint32_t)n;
    return rc == ERR_OK ? check_arms(out, e) : rc;
}

static int check_routes(const struct desired *d, struct err *e)
{
    for (uint32_t i = 0; i < d->n_route; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (str_eq(d->route[i].name, d->route[j].name))
                return err_set(e, ERR_INVALID, "two routes named %.60s", d->route[i].name.p);
        }
    }
    return ERR_OK;
}

int desired_read(const struct json_at *obj, struct arena *a, struct desired *out, struct err *e)
{
    struct json_at version = json_field(obj, "version"), routes = json_field(obj, "routes");
    int64_t v = 0;
    size_t n = 0;
    int rc = json_get_i64(&version, 1, INT64_MAX, &v, e);
    if (rc == ERR_OK)
        rc = json_get_array(&routes, CONTROL_MAX_ROUTES, &n, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
    out->version = (uint64_t)v;
    out->n_route = (uint32_t)n;
    out->route = arena_array(a, n + 1, sizeof *out->route);
    if (!out->route)
        return err_set(e, ERR_NOMEM, "out of memory for a desired state");
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&routes, i);
        rc = read_route(&item, a, &out->route[i], e);
    }
    if (rc == ERR_OK)
        rc = check_routes(out, e);
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}
