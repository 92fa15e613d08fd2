/* controller/registry.c - the table of laws, and the one place that runs them.
 *
 * Owner of a policy's state memory: the law's, and beside it that of the route's experiment. Every
 * event goes to the experiment first, which may end by it; what the experiment decides about the
 * champion the law is told as an event. A new law: one file in policies/, one line here. */
#include "controller/experiments/experiment.h"
#include "controller/policies/arms.h"
#include "controller/policies/policies.h"
#include "controller/policies/state_read.h"

#include <stdlib.h>
#include <string.h>

static const struct policy_ops *const LAWS[POLICY_KIND_COUNT] = {
    [POLICY_HOLD] = &POLICY_HOLD_OPS,
    [POLICY_THRESHOLD] = &POLICY_THRESHOLD_OPS,
    [POLICY_CANARY] = &POLICY_CANARY_OPS,
};

struct policy {
    const struct policy_ops *ops;
    struct policy_settings settings;
    void *state; /* ops->state_bytes */
    struct experiment experiment;
};

const struct policy_ops *policy_find(const char *name)
{
    for (int i = 0; i < POLICY_KIND_COUNT; i++)
        if (strcmp(LAWS[i]->name, name) == 0)
            return LAWS[i];
    return NULL;
}

int policy_open(struct policy **out, const struct policy_settings *s, struct err *e)
{
    *out = NULL;
    int rc = policy_settings_check(s, e);
    if (rc != ERR_OK)
        return rc;
    struct policy *p = calloc(1, sizeof *p);
    void *state = calloc(1, LAWS[s->kind]->state_bytes);
    if (!p || !state) {
        free(p);
        free(state);
        return err_set(e, ERR_NOMEM, "policy: no memory for the state");
    }
    *p = (struct policy){.ops = LAWS[s->kind], .settings = *s, .state = state};
    *out = p;
    return ERR_OK;
}

void policy_close(struct policy *p)
{
    if (!p)
        return;
    free(p->state);
    free(p);
}

static struct arms *arms_of(struct policy *p)
{
    return (struct arms *)((char *)p->state + p->ops->arms_at);
}

static bool is_of_experiments(const struct policy_event *ev)
{
    return ev->kind == EVENT_EXPERIMENT || ev->kind == EVENT_EXPERIMENT_STOP;
}

static const char *refuses(struct policy *p, const struct policy_event *ev)
{
    const char *why = experiment_refuses(&p->experiment, ev);
    if (why)
        return why;
    if (!is_of_experiments(ev))
        return p->ops->refuses(p->state, ev);
    const struct arms *a = arms_of(p);
    if (ev->kind == EVENT_EXPERIMENT && a->champion.number == 0)
        return "the route has no champion yet";
    if (ev->kind == EVENT_EXPERIMENT && a->phase == PHASE_SAFE)
        return "the route is on hold; resume it first";
    if (ev->kind == EVENT_EXPERIMENT && a->phase != PHASE_STABLE)
        return "a trial is running; wait for its verdict or stop it first";
    return NULL;
}

/* The law waits while an experiment runs; its winner is the law's next proposal, or its champion.
 */
static void follow_experiment(struct policy *p, const struct policy_event *ev,
                              const struct policy_actions *acts)
{
    struct arms *a = arms_of(p);
    if (p->experiment.phase == EXPERIMENT_RUNNING)
        a->phase = PHASE_EXPERIMENT;
    else if (a->phase == PHASE_EXPERIMENT)
        a->phase = PHASE_STABLE;
    for (uint32_t i = 0; i < acts->n; i++) {
        const struct policy_action *act = &acts->a[i];
        struct policy_event told = {.kind = EVENT_CHAMPION, .now_us = ev->now_us};
        struct policy_actions none = {0};
        if (act->kind == ACTION_START_CANARY)
            a->phase = PHASE_PROPOSED;
        if (act->kind != ACTION_PROMOTE)
            continue;
        told.champion = p->experiment.arm[p->experiment.winner].revision;
        p->ops->step(&p->settings, p->state, &told, &none);
    }
}

int policy_step(struct policy *p, const struct policy_event *ev, struct policy_actions *out,
                struct err *e)
{
    out->n = 0;
    if (ev->kind >= EVENT_KIND_COUNT)
        return err_set(e, ERR_BUG, "policy: event kind %d does not exist", (int)ev->kind);
    const char *why = refuses(p, ev);
    if (why)
        return err_set(e, ERR_CONFLICT, "%s", why);
    experiment_step(&p->experiment, &p->settings, ev, out);
    follow_experiment(p, ev, out);
    if (!is_of_experiments(ev))
        p->ops->step(&p->settings, p->state, ev, out);
    return ERR_OK;
}

uint64_t policy_wake_us(const struct policy *p)
{
    uint64_t law = p->ops->wake_us(&p->settings, p->state);
    uint64_t experiment = experiment_wake_us(&p->experiment, &p->settings);
    if (law == 0 || experiment == 0)
        return law | experiment;
    return law < experiment ? law : experiment;
}

json_t *policy_experiment(const struct policy *p)
{
    return experiment_report(&p->experiment);
}

void policy_view(const struct policy *p, struct policy_view *out)
{
    p->ops->view(&p->settings, p->state, out);
    experiment_view(&p->experiment, out);
}

const struct policy_settings *policy_settings_of(const struct policy *p)
{
    return &p->settings;
}

void policy_state_write(const struct policy *p, struct buf *out)
{
    size_t begin = out->n;
    state_write(p->ops->fields, p->state, out);
    if (out->n > begin)
        out->n--; /* the law's name and the experiment stand inside its object */
    buf_printf(out, ",\"policy\":\"%s\"", p->ops->name);
    /* Absent before the first experiment, and in databases from before there were any. */
    if (p->experiment.phase != EXPERIMENT_IDLE) {
        buf_put_c(out, ",\"experiment_state\":");
        state_write(EXPERIMENT_FIELDS, &p->experiment, out);
    }
    buf_put_char(out, '}');
}

json_t *policy_state_encode(const struct policy *p)
{
    struct buf text;
    json_t *v = NULL;
    buf_init(&text, STATE_MAX_BYTES);
    policy_state_write(p, &text);
    if (buf_check(&text, "state", NULL) != ERR_OK ||
        json_parse(buf_str(&text), 0, &v, NULL) != ERR_OK)
        v = NULL;
    buf_free(&text);
    return v;
}

struct read_state { /* as it is read, before it replaces a policy's own */
    void *law;
    struct experiment experiment;
};

static int decode_state(const struct policy *p, const json_t *v, struct read_state *out,
                        struct err *e)
{
    const char *name = json_string_value(json_object_get(v, "policy"));
    const json_t *experiment = json_object_get(v, "experiment_state");
    if (!name || strcmp(name, p->ops->name) != 0)
        return err_set(e, ERR_CORRUPT, "policy state: of law \"%s\", want \"%s\"",
                       name ? name : "none", p->ops->name);
    int rc = state_decode(p->ops->fields, v, out->law, e);
    return rc == ERR_OK && experiment
               ? state_decode(EXPERIMENT_FIELDS, experiment, &out->experiment, e)
               : rc;
}

/* As policy_state_write puts it. */
static bool read_state(const struct policy *p, struct str text, struct read_state *out)
{
    bool is_law = state_read_fields(p->ops->fields, &text, out->law) &&
                  state_pass(&text, ",\"policy\":\"") && state_pass(&text, p->ops->name) &&
                  state_pass(&text, "\"");
    if (is_law && state_pass(&text, ",\"experiment_state\":"))
        is_law =
            state_read_fields(EXPERIMENT_FIELDS, &text, &out->experiment) && state_pass(&text, "}");
    return is_law && str_eq_c(text, "}");
}

static int read_tree(const struct policy *p, struct str text, struct read_state *out, struct err *e)
{
    json_t *v = NULL;
    memset(out->law, 0, p->ops->state_bytes);
    out->experiment = (struct experiment){0};
    int rc = json_parse(text, 0, &v, e);
    if (rc == ERR_OK)
        rc = decode_state(p, v, out, e);
    json_decref(v);
    return rc;
}

/* Of a tree, or, where there is none, of a text. */
static int take_state(struct policy *p, const json_t *v, struct str text, struct err *e)
{
    struct read_state *st = calloc(1, sizeof *st);
    void *law = calloc(1, p->ops->state_bytes);
    int rc = st && law ? ERR_OK : err_set(e, ERR_NOMEM, "policy: no memory for the state");
    if (rc == ERR_OK) {
        st->law = law;
        if (v)
            rc = decode_state(p, v, st, e);
        else if (!read_state(p, text, st))
            rc = read_tree(p, text, st, e);
    }
    if (rc == ERR_OK) {
        memcpy(p->state, law, p->ops->state_bytes);
        p->experiment = st->experiment;
    }
    free(law);
    free(st);
    return rc;
}

int policy_state_decode(struct policy *p, const json_t *v, struct err *e)
{
    return take_state(p, v, STR(""), e);
}

int policy_state_read(struct policy *p, struct str text, struct err *e)
{
    return take_state(p, NULL, text, e);
}

const char *policy_law_name(enum policy_kind k)
{
    return k < POLICY_KIND_COUNT ? LAWS[k]->name : "unknown";
}

const char *policy_action_name(enum policy_action_kind k)
{
    static const char *const NAMES[ACTION_KIND_COUNT] = {
        "canary", "step",  "promote",  "rollback",  "expire",  "quarantine",
        "hold",   "alert", "allocate", "eliminate", "conclude"};
    return k < ACTION_KIND_COUNT ? NAMES[k] : "unknown";
}
