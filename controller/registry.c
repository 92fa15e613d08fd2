/* controller/registry.c - the table of laws, and the one place that runs them.
 *
 * Owner of a policy's state memory. A new law: one file in policies/, one line here. */
#include "controller/policies/policies.h"
#include "controller/policies/state_codec.h"

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

int policy_step(struct policy *p, const struct policy_event *ev, struct policy_actions *out,
                struct err *e)
{
    out->n = 0;
    if (ev->kind >= EVENT_KIND_COUNT)
        return err_set(e, ERR_BUG, "policy: event kind %d does not exist", (int)ev->kind);
    const char *why = p->ops->refuses(p->state, ev);
    if (why)
        return err_set(e, ERR_CONFLICT, "%s", why);
    p->ops->step(&p->settings, p->state, ev, out);
    return ERR_OK;
}

uint64_t policy_wake_us(const struct policy *p)
{
    return p->ops->wake_us(&p->settings, p->state);
}

void policy_view(const struct policy *p, struct policy_view *out)
{
    p->ops->view(&p->settings, p->state, out);
}

const struct policy_settings *policy_settings_of(const struct policy *p)
{
    return &p->settings;
}

json_t *policy_state_encode(const struct policy *p)
{
    json_t *v = state_encode(p->ops->fields, p->state);
    if (v && json_object_set_new(v, "policy", json_string(p->ops->name))) {
        json_decref(v);
        v = NULL;
    }
    return v;
}

int policy_state_decode(struct policy *p, const json_t *v, struct err *e)
{
    const char *name = json_string_value(json_object_get(v, "policy"));
    if (!name || strcmp(name, p->ops->name) != 0)
        return err_set(e, ERR_CORRUPT, "policy state: of law \"%s\", want \"%s\"",
                       name ? name : "none", p->ops->name);
    void *fresh = calloc(1, p->ops->state_bytes);
    if (!fresh)
        return err_set(e, ERR_NOMEM, "policy: no memory for the state");
    int rc = state_decode(p->ops->fields, v, fresh, e);
    if (rc == ERR_OK)
        memcpy(p->state, fresh, p->ops->state_bytes);
    free(fresh);
    return rc;
}

const char *policy_law_name(enum policy_kind k)
{
    return k < POLICY_KIND_COUNT ? LAWS[k]->name : "unknown";
}

const char *policy_action_name(enum policy_action_kind k)
{
    static const char *const NAMES[ACTION_KIND_COUNT] = {
        "canary", "step", "promote", "rollback", "expire", "quarantine", "hold", "alert"};
    return k < ACTION_KIND_COUNT ? NAMES[k] : "unknown";
}
