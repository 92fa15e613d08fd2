/* reward_model: a scalar from a model that others serve, through one table of adapters: how to ask,
 * where the number stands. Then a fixed map to [0,1]: a reward model's own scale means nothing
 * here.
 *
 * Shapes of the services, as their documentation gives them:
 *   sglang     POST /classify          {text}              -> {embedding:[x,...]} or a list of one
 *   vllm       POST /classify          {model,input}       -> {data:[{probs:[p,...]}]} (softmax!)
 *   tei        POST /predict           {inputs,raw_scores} -> [{label,score}]
 *   remote_rm  Miles, slime            {prompt,response,label} -> a number, or an object
 *   engine     POST /v1/chat/completions, one token: P(yes) against P(no) */
#include "verifier/checks/service.h"
#include "verifier/text/fill.h"
#include "verifier/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

struct reward_model {
    struct service service;
    int api, normalise;
    struct str model, template, field, label, key, revision;
    int64_t index;
    double low, high, mean, deviation;
    struct arena arena;
};

/* Adapters: the question as JSON (NULL: no memory), the number in an answer (false: not there). */

static json_t *ask_sglang(const struct reward_model *m, struct str text)
{
    return json_pack("{s:s%,s:o}", "model", m->model.p ? m->model.p : "", m->model.n, "text",
                     json_str(text));
}

static json_t *ask_vllm(const struct reward_model *m, struct str text)
{
    return json_pack("{s:s%,s:o}", "model", m->model.p ? m->model.p : "", m->model.n, "input",
                     json_str(text));
}

static json_t *ask_tei(const struct reward_model *m, struct str text)
{
    (void)m;
    return json_pack("{s:o,s:b,s:b}", "inputs", json_str(text), "raw_scores", 1, "truncate", 1);
}

static json_t *ask_engine(const struct reward_model *m, struct str text)
{
    return json_pack("{s:s%,s:[{s:s,s:o}],s:i,s:i,s:b,s:i}", "model", m->model.p ? m->model.p : "",
                     m->model.n, "messages", "role", "user", "content", json_str(text),
                     "temperature", 0, "max_tokens", 1, "logprobs", 1, "top_logprobs", 20);
}

static bool number_at(const json_t *list, int64_t index, double *out)
{
    const json_t *v = json_array_get(list, (size_t)index);
    *out = json_number_value(v);
    return json_is_number(v);
}

static bool read_sglang(const struct reward_model *m, const json_t *v, double *out)
{
    if (json_is_array(v) && json_array_size(v) == 1)
        v = json_array_get(v, 0);
    return number_at(json_object_get(v, "embedding"), m->index, out);
}

static bool read_vllm(const struct reward_model *m, const json_t *v, double *out)
{
    const json_t *data = json_object_get(v, "data");
    return json_array_size(data) == 1 &&
           number_at(json_object_get(json_array_get(data, 0), "probs"), m->index, out);
}

/* A list of classes in no fixed order: the one named, or the only one. */
static bool read_tei(const struct reward_model *m, const json_t *v, double *out)
{
    if (json_array_size(v) == 1 && json_is_array(json_array_get(v, 0)))
        v = json_array_get(v, 0);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i), *score = json_object_get(one, "score");
        const char *label = json_string_value(json_object_get(one, "label"));
        bool is_it = m->label.n ? label && str_eq_c(m->label, label) : json_array_size(v) == 1;
        *out = json_number_value(score);
        if (is_it)
            return json_is_number(score);
    }
    return false;
}

static bool read_remote_rm(const struct reward_model *m, const json_t *v, double *out)
{
    if (m->key.n)
        v = json_object_getn(v, m->key.p, m->key.n);
    *out = json_number_value(v);
    return json_is_number(v);
}

static bool is_word(const char *token, const char *word)
{
    while (token && *token == ' ')
        token++;
    return token && strcasecmp(token, word) == 0;
}

static bool read_engine(const struct reward_model *m, const json_t *v, double *out)
{
    (void)m;
    const json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
    const json_t *content = json_object_get(json_object_get(choice, "logprobs"), "content");
    const json_t *top = json_object_get(json_array_get(content, 0), "top_logprobs");
    double yes = 0, no = 0;
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *one = json_array_get(top, i), *logprob = json_object_get(one, "logprob");
        const char *token = json_string_value(json_object_get(one, "token"));
        double p = json_is_number(logprob) ? exp(json_number_value(logprob)) : 0;
        yes += is_word(token, "yes") ? p : 0;
        no += is_word(token, "no") ? p : 0;
    }
    *out = yes + no > 0 ? yes / (yes + no) : NAN;
    return json_is_array(top);
}

#define CLASSIFY_TEMPLATE "{prompt}\n\n{response}"
#define ENGINE_TEMPLATE                                                                            \
    "Question:\n{prompt}\n\nAnswer:\n{response}\n\nIs the answer correct and helpful? Reply with " \
    "one word, yes or no."
#define SELF_TEST                                                                                  \
    "{\"prompt\":\"What is the capital of France?\","                                              \
    "\"better\":\"The capital of France is Paris.\","                                              \
    "\"worse\":\"table table 7 7 7 no no go away\"}"

static const struct adapter {
    json_t *(*ask)(const struct reward_model *m, struct str text);
    bool (*read)(const struct reward_model *m, const json_t *v, double *out);
    const char *template;
    const char *self_test; /* built in; NULL: only when given */
} ADAPTERS[] = {
    {ask_sglang, read_sglang, CLASSIFY_TEMPLATE, SELF_TEST},
    {ask_vllm, read_vllm, CLASSIFY_TEMPLATE, SELF_TEST},
    {ask_tei, read_tei, CLASSIFY_TEMPLATE, SELF_TEST},
    {NULL, read_remote_rm, NULL, NULL}, /* sends prompt, response, label apart */
    {ask_engine, read_engine, ENGINE_TEMPLATE, SELF_TEST},
};
static const char *const APIS[] = {"sglang", "vllm", "tei", "remote_rm", "engine", NULL};
enum { REMOTE_RM = 3 };

enum { MIN_MAX = 2 }; /* as in MAPS */
static const char *const NORMALISATIONS[] = {"none", "sigmoid", "min_max", "z_score", NULL};

#define AT(member) offsetof(struct reward_model, member)
static const struct option OPTIONS[] = {
    SERVICE_OPTIONS(struct reward_model, service),
    {"api", OPTION_ENUM, AT(api), 0, 0, APIS, "shape of the service"},
    {"model", OPTION_TEXT, AT(model), 0, 0, NULL, "name of the model, as the service knows it"},
    {"revision", OPTION_TEXT, AT(revision), 0, 0, NULL,
     "build of model and service, for people: a change makes a new version of the checks"},
    {"template", OPTION_TEXT, AT(template), 0, 0, NULL, "text with {prompt} and {response}"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "remote_rm: metadata field sent as label"},
    {"key", OPTION_TEXT, AT(key), 0, 0, NULL, "remote_rm: key of the number; empty = bare number"},
    {"label", OPTION_TEXT, AT(label), 0, 0, NULL, "tei: class whose score counts"},
    {"index", OPTION_INT, AT(index), 0, 1023, NULL, "sglang, vllm: class that counts"},
    {"normalise", OPTION_ENUM, AT(normalise), 0, 0, NORMALISATIONS, "map to [0,1]"},
    {"low", OPTION_REAL, AT(low), -1e9, 1e9, NULL, "min_max: becomes 0"},
    {"high", OPTION_REAL, AT(high), -1e9, 1e9, NULL, "min_max: becomes 1"},
    {"mean", OPTION_REAL, AT(mean), -1e9, 1e9, NULL, "sigmoid, z_score: becomes 0.5"},
    {"deviation", OPTION_REAL, AT(deviation), 1e-9, 1e9, NULL, "sigmoid, z_score: one unit"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

extern const struct check_ops CHECK_REWARD_MODEL;

static void reward_model_close(void *state)
{
    struct reward_model *m = state;
    if (!m)
        return;
    service_close(&m->service);
    arena_free(&m->arena);
    free(m);
}

static int check_options(const struct reward_model *m, struct err *e)
{
    if (m->normalise == MIN_MAX && !(m->low < m->high))
        return err_set(e, ERR_INVALID, "low, high: found %g and %g, allowed: low < high", m->low,
                       m->high);
    if (m->api != REMOTE_RM && str_find(m->template, STR("{response}"), 0) < 0)
        return err_set(e, ERR_INVALID, "template: found no {response} in it, needed: one");
    return ERR_OK;
}

static int reward_model_open(void **state, const struct json_at *params, struct err *e)
{
    struct reward_model *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&m->arena, MiB);
    service_init(&m->service, &CHECK_REWARD_MODEL, m, &m->arena);
    m->field = STR("reference");
    m->high = m->deviation = 1;
    int rc = options_read(OPTIONS, OPTIONS_N, params, &m->arena, m, e);
    if (rc == ERR_OK && m->template.n == 0)
        m->template = str_from(ADAPTERS[m->api].template);
    if (rc == ERR_OK)
        rc = check_options(m, e);
    if (rc == ERR_OK)
        rc = service_open(&m->service, ADAPTERS[m->api].self_test, e);
    if (rc != ERR_OK) {
        reward_model_close(m);
        return rc;
    }
    *state = m;
    return ERR_OK;
}

static struct remote_lane *reward_model_lane(const void *state)
{
    return ((const struct reward_model *)state)->service.lane;
}

static bool reward_model_ask(const void *state, const struct check_item *item, struct str *question,
                             struct check_verdict *v)
{
    const struct reward_model *m = state;
    struct str prompt = service_prompt(item->output, item->arena);
    const struct fill_slot slots[] = {{"prompt", prompt}, {"response", item->output->text}};
    json_t *q = NULL;
    if (m->api == REMOTE_RM) {
        const json_t *label = json_object_getn(item->metadata, m->field.p, m->field.n);
        q = json_pack("{s:o,s:o,s:O?}", "prompt", json_str(prompt), "response",
                      json_str(item->output->text), "label", label);
        if (q && !label)
            json_object_set_new(q, "label", json_null());
    } else {
        struct str text = text_fill(m->template, slots, 2, item->arena);
        q = text.p ? ADAPTERS[m->api].ask(m, text) : NULL;
    }
    return check_question(q, item->arena, question, v);
}

/* Maps to [0,1]. NaN: outside what the map is made for. */

static double map_none(const struct reward_model *m, double x)
{
    (void)m;
    return x >= 0 && x <= 1 ? x : NAN;
}

static double map_sigmoid(const struct reward_model *m, double x)
{
    return 1 / (1 + exp(-(x - m->mean) / m->deviation));
}

static double map_min_max(const struct reward_model *m, double x)
{
    return fmin(1, fmax(0, (x - m->low) / (m->high - m->low)));
}

/* The share of a normal distribution that lies below x. */
static double map_z_score(const struct reward_model *m, double x)
{
    return 0.5 * erfc(-(x - m->mean) / m->deviation * M_SQRT1_2);
}

typedef double map_fn(const struct reward_model *m, double x);
static map_fn *const MAPS[] = {map_none, map_sigmoid, map_min_max, map_z_score};

static struct check_verdict reward_model_read(const void *state, const struct check_item *item,
                                              struct str answer, bool *is_broken)
{
    (void)item;
    const struct reward_model *m = state;
    double x = NAN;
    json_t *doc = service_parse(answer, is_broken);
    bool is_there = doc && ADAPTERS[m->api].read(m, doc, &x);
    json_decref(doc);
    *is_broken = !is_there;
    if (!is_there)
        return check_unscored("malformed_answer");
    double value = MAPS[m->normalise](m, x);
    struct check_verdict v =
        isnan(x) || isnan(value) ? check_unscored("out_of_range") : check_share(value, "");
    v.measure = isnan(x) ? 0 : x;
    return v;
}

const struct check_ops CHECK_REWARD_MODEL = {
    .kind = "reward_model",
    .code_version = 1,
    .summary = "a number from a reward model over HTTP, mapped to [0,1]",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = reward_model_open,
    .close = reward_model_close,
    .lane = reward_model_lane,
    .ask = reward_model_ask,
    .read = reward_model_read,
};
