/* The wire's thread builds the table and leaves it here; the loop picks it up between two events,
 * so that requests see the old state or the new one, never a mixture. */
#include "engine/desired.h"

#include "common/log.h"

#include <stdio.h>

struct desired_action {
    const char *name;
    void (*run)(struct desired_inbox *d, const struct desired_command *c);
    const char *done; /* NULL: the result comes later */
};

static void stop_admitting(struct desired_inbox *d, const struct desired_command *c)
{
    (void)c;
    api_set_admitting(d->api, false);
}

static void start_admitting(struct desired_inbox *d, const struct desired_command *c)
{
    (void)c;
    api_set_admitting(d->api, true);
}

static void flush_cache(struct desired_inbox *d, const struct desired_command *c)
{
    (void)c;
    d->ops->flush_cache(d->generator);
}

static void post_failure(struct desired_inbox *d, uint64_t command_id, const struct err *e)
{
    log_event(LOG_WARN, "engine.weights_refused", "err=\"%s\"", e->msg);
    wire_post_result(d->wire, command_id, false, str_from(e->msg));
}

static void load_weights(struct desired_inbox *d, const struct desired_command *c)
{
    struct err e;
    if (reload_start(d->reload, c->id, str_from(c->argument), &e) != ERR_OK)
        post_failure(d, c->id, &e);
}

static const struct desired_action ACTIONS[] = {
    {"drain", stop_admitting, "no new requests are taken; those in flight go on"},
    {"pause", stop_admitting, "no new requests are taken"},
    {"resume", start_admitting, "requests are taken again"},
    {"flush_cache", flush_cache, "prefixes that no request holds are forgotten"},
    {"load_weights", load_weights, NULL},
};

void desired_init(struct desired_inbox *d)
{
    pthread_mutex_init(&d->lock, NULL);
}

void desired_fini(struct desired_inbox *d)
{
    route_table_release(d->pending);
    pthread_mutex_destroy(&d->lock);
}

static uint32_t knob(const struct params *p, enum param_id id, uint32_t configured)
{
    return params_has(p, id) ? (uint32_t)p->v[id] : configured;
}

/* Knobs belong to the engine, not to a request: the default route's champion sets them, or the arm
 * that has all of the traffic for a slice of time (an experiment over knobs). */
static void apply_knobs(struct desired_inbox *d, const struct route_table *t)
{
    struct route_choice first;
    if (route_choose(t, STR(""), STR(""), &first, NULL) != ERR_OK)
        return;
    const struct desired_route *r = first.route;
    uint32_t at = 0;
    for (uint32_t k = 0; k < r->n_arm && !r->is_paused; k++)
        at = r->arm[k].share >= 1 ? k : at;
    const struct params *p = &r->arm[at].revision.params.defaults;
    d->ops->set_knobs(d->generator, knob(p, PARAM_MAX_RUNNING, d->max_running),
                      knob(p, PARAM_PREFILL_CHUNK, d->prefill_chunk));
}

void desired_apply(struct desired_inbox *d, struct route_table *t)
{
    uint64_t version = route_table_version(t);
    apply_knobs(d, t);
    api_set_table(d->api, t);
    if (d->wire)
        wire_set_applied(d->wire, version);
    log_event(LOG_INFO, "engine.desired_applied", "version=%llu routes=%u",
              (unsigned long long)version, route_table_count(t));
}

static void run_command(struct desired_inbox *d, const struct desired_command *c)
{
    static const char UNKNOWN[] =
        "not known here; known: drain, pause, resume, flush_cache, load_weights";
    if (c->action)
        c->action->run(d, c);
    if (!c->action || c->action->done)
        wire_post_result(d->wire, c->id, c->action != NULL,
                         str_from(c->action ? c->action->done : UNKNOWN));
}

static void on_retired(void *inbox, struct model *old)
{
    (void)inbox;
    log_event(LOG_INFO, "engine.weights_retired", "weights=" STR_FMT,
              STR_ARG(model_get_info(old)->weights_hash));
    model_close(old);
}

/* Records and hello keep the name for as long as the process lives. */
static int switch_weights(struct desired_inbox *d, struct model *m, struct str *name, struct err *e)
{
    *name = arena_str(d->arena, model_get_info(m)->weights_hash);
    if (!name->p)
        return err_set(e, ERR_NOMEM, "too many weights for one process: start it again");
    int rc = d->ops->set_model(d->generator, m, on_retired, d, e);
    if (rc != ERR_OK)
        return rc;
    d->load->model = m;
    api_set_weights(d->api, *name);
    wire_set_weights(d->wire, *name);
    return ERR_OK;
}

void desired_on_weights(void *inbox, uint64_t command_id, struct model *m, const struct err *e)
{
    struct desired_inbox *d = inbox;
    struct str name;
    struct err why;
    if (!m || switch_weights(d, m, &name, &why) != ERR_OK) {
        post_failure(d, command_id, m ? &why : e);
        model_close(m);
        return;
    }
    char text[256];
    snprintf(text, sizeof text, "weights " STR_FMT " serve; older requests end on theirs",
             STR_ARG(name));
    log_event(LOG_INFO, "engine.weights_loaded", "weights=" STR_FMT, STR_ARG(name));
    wire_post_result(d->wire, command_id, true, str_from(text));
}

static void on_loop(void *inbox)
{
    struct desired_inbox *d = inbox;
    struct desired_command command[DESIRED_MAX_COMMANDS];
    pthread_mutex_lock(&d->lock);
    struct route_table *t = d->pending;
    d->pending = NULL;
    uint32_t n = d->n_command;
    for (uint32_t i = 0; i < n; i++)
        command[i] = d->command[i];
    d->n_command = 0;
    pthread_mutex_unlock(&d->lock);
    if (t)
        desired_apply(d, t);
    for (uint32_t i = 0; i < n; i++)
        run_command(d, &command[i]);
}

void desired_on_document(void *inbox, const struct desired *doc, struct str text)
{
    struct desired_inbox *d = inbox;
    struct route_table *t;
    struct err e;
    if (desired_table_accept(d->outbox, doc, text, &t, &e) != ERR_OK)
        return;
    pthread_mutex_lock(&d->lock);
    struct route_table *older = d->pending;
    d->pending = t;
    pthread_mutex_unlock(&d->lock);
    route_table_release(older);
    (void)http_server_post(d->server, on_loop, d);
}

void desired_on_command(void *inbox, const struct control_command *c)
{
    struct desired_inbox *d = inbox;
    struct desired_command command = {.id = c->id};
    snprintf(command.argument, sizeof command.argument, STR_FMT, STR_ARG(c->argument));
    for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++)
        if (str_eq_c(c->name, ACTIONS[i].name))
            command.action = &ACTIONS[i];
    pthread_mutex_lock(&d->lock);
    bool has_room = d->n_command < DESIRED_MAX_COMMANDS;
    if (has_room)
        d->command[d->n_command++] = command;
    pthread_mutex_unlock(&d->lock);
    if (has_room)
        (void)http_server_post(d->server, on_loop, d);
    else
        log_event(LOG_WARN, "engine.command_dropped", "id=%llu", (unsigned long long)c->id);
}
