/* The snapshot holds its own arena; reference counts are plain, since one thread owns them. */
#include "engine/route/route.h"

#include "common/hash.h"

#include <math.h>
#include <stdlib.h>

enum { TABLE_BYTES = 16 * 1024 * 1024 };

struct route_table {
    struct arena arena;
    uint32_t references;
    struct desired desired;
};

static struct route_table *table_new(void)
{
    struct route_table *t = calloc(1, sizeof *t);
    if (t) {
        arena_init(&t->arena, TABLE_BYTES);
        t->references = 1;
    }
    return t;
}

static int check_table(const struct desired *d, struct err *e)
{
    if (d->n_route == 0)
        return err_set(e, ERR_INVALID, "desired state %llu has no route",
                       (unsigned long long)d->version);
    for (uint32_t i = 0; i < d->n_route; i++) {
        const struct desired_route *r = &d->route[i];
        double sum = 0;
        for (uint32_t k = 0; k < r->n_arm; k++)
            sum += r->arm[k].share;
        if (r->n_arm == 0 || fabs(sum - 1) > 1e-6)
            return err_set(e, ERR_INVALID, "route " STR_FMT ": %u arms with shares that sum to %g",
                           STR_ARG(r->name), r->n_arm, sum);
    }
    return ERR_OK;
}

/* Through the codec: the message already is a complete copy of the document. */
static int copy_desired(struct route_table *t, const struct desired *d, struct err *e)
{
    struct control message = {.type = CONTROL_DESIRED, .desired = *d}, copy;
    struct buf text;
    buf_init(&text, TABLE_BYTES / 2);
    int rc = control_encode(&message, &text, e);
    if (rc == ERR_OK)
        rc = control_decode(buf_str(&text), &t->arena, &copy, e);
    if (rc == ERR_OK)
        t->desired = copy.desired;
    buf_free(&text);
    return rc;
}

int route_table_from_desired(struct route_table **out, const struct desired *d, struct err *e)
{
    *out = NULL;
    int rc = check_table(d, e);
    if (rc != ERR_OK)
        return rc;
    struct route_table *t = table_new();
    if (!t)
        return err_set(e, ERR_NOMEM, "route table");
    rc = copy_desired(t, d, e);
    if (rc != ERR_OK)
        route_table_release(t);
    else
        *out = t;
    return rc;
}

static int config_revision(const struct route_config *c, struct arena *a, struct revision *out,
                           struct err *e)
{
    json_t *json = NULL;
    int rc = json_parse(c->params.n ? c->params : STR("{}"), 0, &json, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at at = json_root(json);
    rc = param_set_decode(&at, a, &out->params, e);
    json_decref(json);
    if (rc != ERR_OK)
        return err_wrap(e, "route " STR_FMT, STR_ARG(c->name));
    out->route = arena_str(a, c->name);
    out->author = STR("config");
    out->reason = STR("");
    param_set_hash(&out->params, out->hash);
    return ERR_OK;
}

int route_table_from_config(struct route_table **out, const struct milepost_config *c,
                            struct err *e)
{
    *out = NULL;
    int rc = ERR_OK;
    struct route_table *t = table_new();
    if (!t)
        return err_set(e, ERR_NOMEM, "route table");
    t->desired.n_route = c->routes.n;
    t->desired.route = arena_array(&t->arena, c->routes.n + 1, sizeof *t->desired.route);
    if (!t->desired.route)
        TRY(err_set(e, ERR_NOMEM, "route table"));
    for (uint32_t i = 0; i < c->routes.n; i++) {
        struct desired_route *r = &t->desired.route[i];
        const struct route_config *rc_ = (const struct route_config *)c->routes.item + i;
        *r = (struct desired_route){.name = arena_str(&t->arena, rc_->name), .n_arm = 1};
        r->arm[0] = (struct desired_arm){.name = STR("champion"), .share = 1};
        TRY(config_revision(rc_, &t->arena, &r->arm[0].revision, e));
    }
    TRY(check_table(&t->desired, e));
    *out = t;
    return ERR_OK;
out:
    route_table_release(t);
    return rc;
}

struct route_table *route_table_hold(struct route_table *t)
{
    t->references++;
    return t;
}

void route_table_release(struct route_table *t)
{
    if (!t || --t->references > 0)
        return;
    arena_free(&t->arena);
    free(t);
}

uint64_t route_table_version(const struct route_table *t)
{
    return t->desired.version;
}

uint32_t route_table_count(const struct route_table *t)
{
    return t->desired.n_route;
}

struct str route_table_name_at(const struct route_table *t, uint32_t i)
{
    return t->desired.route[i].name;
}

void route_split_model(struct str model, struct str *base, struct str *route)
{
    ptrdiff_t colon = str_find(model, STR(":"), 0);
    *base = colon < 0 ? model : str_slice(model, 0, (size_t)colon);
    *route = colon < 0 ? STR("") : str_slice(model, (size_t)colon + 1, model.n);
}

static const struct desired_route *find_route(const struct desired *d, struct str name)
{
    for (uint32_t i = 0; i < d->n_route; i++)
        if (name.n == 0 || str_eq(d->route[i].name, name))
            return &d->route[i];
    return NULL;
}

static int unknown_route(const struct desired *d, struct str name, struct err *e)
{
    struct buf known;
    buf_init(&known, 4096);
    for (uint32_t i = 0; i < d->n_route; i++)
        buf_printf(&known, "%s" STR_FMT, i ? ", " : "", STR_ARG(d->route[i].name));
    buf_put_char(&known, '\0');
    int rc = err_set(e, ERR_NOT_FOUND, "route '" STR_FMT "' is not known; known: %s",
                     STR_ARG(str_slice(name, 0, 64)), known.failed ? "many" : known.p);
    buf_free(&known);
    return rc;
}

/* Uniform in [0,1) from salt, experiment and unit, with separators that occur in none. */
static double assignment_point(const struct desired_route *r, struct str unit)
{
    uint64_t h = hash64(r->salt.p, r->salt.n, 1);
    h = hash64(r->experiment.p, r->experiment.n, h);
    h = hash64(unit.p, unit.n, h);
    return (double)(h >> 11) * 0x1.0p-53;
}

int route_choose(const struct route_table *t, struct str name, struct str unit,
                 struct route_choice *out, struct err *e)
{
    const struct desired_route *r = find_route(&t->desired, name);
    if (!r)
        return unknown_route(&t->desired, name, e);
    *out = (struct route_choice){.route = r, .arm = &r->arm[0], .propensity = 1};
    if (r->n_arm == 1 || r->is_paused)
        return ERR_OK;
    double point = assignment_point(r, unit), sum = 0;
    for (uint32_t i = 0; i < r->n_arm && point >= sum; i++) {
        sum += r->arm[i].share;
        /* Rounding may leave the sum below the point: then the last arm that has a share. */
        if (r->arm[i].share > 0) {
            out->arm = &r->arm[i];
            out->propensity = r->arm[i].share;
        }
    }
    return ERR_OK;
}

struct str route_unit(struct str user, struct str conversation, struct str request_id)
{
    struct str unit = user.n ? user : conversation;
    return unit.n ? unit : request_id;
}

/* A limit on new tokens that the context has no room for is lowered to the room there is. */
void route_settle(const struct route_choice *c, const struct params *client, double room,
                  struct params *effective)
{
    params_resolve(&c->arm->revision.params, client, effective);
    if (effective->v[PARAM_MAX_NEW_TOKENS] > room)
        effective->v[PARAM_MAX_NEW_TOKENS] = room;
}

void route_mark(const struct route_table *t, const struct route_choice *c, uint64_t number,
                struct output *out)
{
    out->route = c->route->name;
    out->revision = c->arm->revision.number;
    out->arm = c->arm->name;
    out->experiment = c->route->experiment;
    out->propensity = c->propensity;
    out->admission = number;
    out->desired_version = route_table_version(t);
}
