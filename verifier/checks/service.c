/* Opens the lane of an HTTP service; its self-test asks through the kind's own ask and read, so
 * that what is tested is what will score. */
#include "verifier/checks/service.h"

#include <stdlib.h>

void service_init(struct service *s, const struct check_ops *ops, const void *state,
                  struct arena *a)
{
    *s = (struct service){.limits = REMOTE_LIMITS_DEFAULT, .ops = ops, .state = state, .arena = a};
}

static int check_url(struct str url, struct err *e)
{
    if (str_starts(url, STR("http://")) || str_starts(url, STR("https://")))
        return ERR_OK;
    return err_set(e, ERR_INVALID, "url: found '" STR_FMT "', allowed: an http or https address",
                   STR_ARG(str_slice(url, 0, 60)));
}

static int make_headers(struct service *s, const char **headers, struct err *e)
{
    headers[0] = headers[1] = NULL;
    if (s->key_env.n == 0)
        return ERR_OK;
    struct str name = arena_str(s->arena, s->key_env);
    const char *key = name.p ? getenv(name.p) : NULL;
    if (!key || !key[0])
        return err_set(e, ERR_INVALID, "key_env: the environment variable %s is not set", name.p);
    headers[0] = arena_printf(s->arena, "Authorization: Bearer %s", key).p;
    return headers[0] ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a key");
}

static bool is_right(const void *ctx, struct str better, struct str worse, const char **why)
{
    const struct service *s = ctx;
    struct check_item none = {0};
    bool is_broken = false;
    struct check_verdict b = s->ops->read(s->state, &none, better, &is_broken);
    struct check_verdict w = s->ops->read(s->state, &none, worse, &is_broken);
    if (is_broken || b.outcome == SCORE_UNSCORED || w.outcome == SCORE_UNSCORED) {
        *why = "unreadable";
        return false;
    }
    *why = "not_in_order";
    return b.measure > w.measure;
}

static int make_question(struct service *s, const struct json_at *test, const char *key,
                         struct str *question, struct err *e)
{
    struct output o = {.finish_reason = STR("stop")};
    struct json_at text = json_field(test, key);
    struct check_verdict v;
    int rc = json_opt_str(test, "prompt", &o.prompt, e);
    if (rc == ERR_OK)
        rc = json_get_str(&text, &o.text, e);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(e, ERR_INVALID, "%s: missing, allowed: a text", key);
    if (rc != ERR_OK)
        return err_wrap(e, "self_test");
    json_t *metadata = json_pack("{s:O?}", "reference", json_object_get(test->v, "reference"));
    struct check_item item = {.output = &o, .metadata = metadata, .arena = s->arena};
    if (!s->ops->ask(s->state, &item, question, &v))
        rc = err_set(e, ERR_INVALID, "self_test.%s: cannot be asked: %s", key, v.reason);
    json_decref(metadata);
    return rc;
}

static int make_probe(struct service *s, const char *built_in, struct remote_probe *probe,
                      struct err *e)
{
    json_t *own = NULL;
    if (!s->self_test && built_in)
        own = json_loads(built_in, 0, NULL);
    const json_t *test = s->self_test ? s->self_test : own;
    if (!test)
        return ERR_OK;
    struct json_at at = json_root(test);
    int rc = make_question(s, &at, "better", &probe->better, e);
    if (rc == ERR_OK)
        rc = make_question(s, &at, "worse", &probe->worse, e);
    probe->is_right = is_right;
    probe->ctx = s;
    json_decref(own);
    return rc;
}

int service_open(struct service *s, const char *built_in, struct err *e)
{
    const char *headers[2];
    struct str url = arena_str(s->arena, s->url);
    struct remote_lane_config c = {.kind = s->ops->kind,
                                   .url = url.p,
                                   .headers = headers,
                                   .max_answer_bytes = SERVICE_ANSWER_MAX_BYTES,
                                   .limits = s->limits};
    int rc = url.p ? check_url(url, e) : err_set(e, ERR_NOMEM, "no memory for a check");
    if (rc == ERR_OK)
        rc = make_headers(s, headers, e);
    if (rc == ERR_OK)
        rc = make_probe(s, built_in, &c.probe, e);
    return rc == ERR_OK ? remote_lane_open(&s->lane, &c, e) : rc;
}

void service_close(struct service *s)
{
    remote_lane_close(s->lane);
}

struct str service_prompt(const struct output *o, struct arena *a)
{
    if (o->n_messages == 0)
        return o->prompt.p ? o->prompt : STR("");
    if (o->n_messages == 1)
        return o->messages[0].content;
    struct buf all;
    buf_init(&all, 16 * MiB);
    for (uint32_t i = 0; i < o->n_messages; i++) {
        buf_put_str(&all, o->messages[i].role);
        buf_put_c(&all, ": ");
        buf_put_str(&all, o->messages[i].content);
        buf_put_char(&all, '\n');
    }
    struct str text = all.failed ? (struct str){NULL, 0} : arena_str(a, buf_str(&all));
    buf_free(&all);
    return text;
}

json_t *service_parse(struct str answer, bool *is_broken)
{
    json_t *v = NULL;
    *is_broken = json_parse(answer, JSON_ANY_VALUE, &v, NULL) != ERR_OK;
    return *is_broken ? NULL : v;
}
