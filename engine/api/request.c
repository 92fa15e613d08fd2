/* The table of request fields. A row names the key, the kinds of request that know it, and its
 * reader; sampling parameters share one reader and take their range from schemas/params.c. */
#include "engine/api/request.h"

enum { ANY_KIND = API_CHAT | API_COMPLETION, MAX_COMPLETION_LOGPROBS = GEN_MAX_TOP };

struct field;
typedef int field_fn(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e);
typedef int list_fn(const struct json_at *at, struct arena *a, struct api_request *r,
                    struct err *e);

struct field {
    const char *key;
    unsigned kinds;
    field_fn *read;
    enum param_id param; /* read_param */
    size_t offset;       /* read_text, read_bool */
    list_fn *list;       /* read_list */
};

int api_refuse_field(const struct json_at *at, struct err *e, const char *what)
{
    char path[96];
    json_path(at, path, sizeof path);
    return err_set(e, ERR_INVALID, "%s: %s", path, what);
}

static int read_param(const struct json_at *at, const struct field *f, struct arena *a,
                      struct api_request *r, struct err *e)
{
    (void)a;
    const struct param_info *info = param_info(f->param);
    double value = 0;
    int64_t whole = 0;
    int rc;
    if (info->is_integer) {
        rc = json_get_i64(at, (int64_t)info->min, (int64_t)info->max, &whole, e);
        value = (double)whole;
    } else {
        rc = json_get_f64(at, info->min, info->max, &value, e);
    }
    return rc == ERR_OK ? params_put(&r->client, f->param, value, e) : rc;
}

static int read_text(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e)
{
    (void)a;
    struct str *out = (struct str *)((char *)r + f->offset);
    int rc = json_get_str(at, out, e);
    if (rc == ERR_OK && out->n > 256)
        rc = api_refuse_field(at, e, "must be at most 256 bytes");
    return rc;
}

static int read_bool(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e)
{
    (void)a;
    return json_get_bool(at, (bool *)((char *)r + f->offset), e);
}

static int read_list(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e)
{
    return f->list(at, a, r, e);
}

static int read_seed(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t seed = 0;
    int rc = json_get_i64(at, INT64_MIN, INT64_MAX, &seed, e);
    r->has_seed = rc == ERR_OK;
    r->seed = (uint64_t)seed;
    return rc;
}

/* Higher goes first, as in SGLang. */
static int read_priority(const struct json_at *at, const struct field *f, struct arena *a,
                         struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t value = 0;
    int rc = json_get_i64(at, -API_MAX_PRIORITY, API_MAX_PRIORITY, &value, e);
    r->priority = (int)value;
    return rc;
}

static int read_timeout(const struct json_at *at, const struct field *f, struct arena *a,
                        struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t value = 0;
    int rc = json_get_i64(at, 1, INT32_MAX, &value, e);
    r->timeout_ms = (uint64_t)value;
    return rc;
}

static int read_n(const struct json_at *at, const struct field *f, struct arena *a,
                  struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t n = 1;
    int rc = json_get_i64(at, 1, API_MAX_CHOICES, &n, e);
    r->n = (uint32_t)n;
    return rc;
}

/* Chat: a switch, with the count in top_logprobs. Completions: the count. */
static int read_logprobs(const struct json_at *at, const struct field *f, struct arena *a,
                         struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t n = 0;
    if (r->kind == API_CHAT)
        return json_get_bool(at, &r->want_logprobs, e);
    int rc = json_get_i64(at, 0, MAX_COMPLETION_LOGPROBS, &n, e);
    r->want_logprobs = rc == ERR_OK;
    r->n_top = (uint32_t)n;
    return rc;
}

static int read_top_logprobs(const struct json_at *at, const struct field *f, struct arena *a,
                             struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int64_t n = 0;
    int rc = json_get_i64(at, 0, GEN_MAX_TOP, &n, e);
    if (rc == ERR_OK && n > 0 && !r->want_logprobs)
        return api_refuse_field(at, e, "needs \"logprobs\": true");
    r->n_top = (uint32_t)n;
    return rc;
}

static int read_stream_options(const struct json_at *at, const struct field *f, struct arena *a,
                               struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    int rc = json_get_object(at, e);
    return rc == ERR_OK ? json_opt_bool(at, "include_usage", &r->include_usage, e) : rc;
}

static int read_echo(const struct json_at *at, const struct field *f, struct arena *a,
                     struct api_request *r, struct err *e)
{
    (void)f;
    (void)a;
    (void)r;
    bool echo = false;
    int rc = json_get_bool(at, &echo, e);
    return rc == ERR_OK && echo ? api_refuse_field(at, e, "echo is not supported: leave it out")
                                : rc;
}

#define PARAM(key_, id)                                                                            \
    {                                                                                              \
        .key = key_, .kinds = ANY_KIND, .read = read_param, .param = id                            \
    }
#define PLACE(key_, read_, member)                                                                 \
    {                                                                                              \
        .key = key_, .kinds = ANY_KIND, .read = read_,                                             \
        .offset = offsetof(struct api_request, member)                                             \
    }
#define LIST(key_, kinds_, fn)                                                                     \
    {                                                                                              \
        .key = key_, .kinds = kinds_, .read = read_list, .list = fn                                \
    }
#define OWN(key_, kinds_, read_)                                                                   \
    {                                                                                              \
        .key = key_, .kinds = kinds_, .read = read_                                                \
    }

/* Of two names for one thing the later row wins. */
static const struct field FIELDS[] = {
    PLACE("model", read_text, model),
    LIST("messages", API_CHAT, api_read_messages),
    LIST("prompt", API_COMPLETION, api_read_prompt),
    PARAM("temperature", PARAM_TEMPERATURE),
    PARAM("top_p", PARAM_TOP_P),
    PARAM("top_k", PARAM_TOP_K),
    PARAM("min_p", PARAM_MIN_P),
    PARAM("repetition_penalty", PARAM_REPETITION_PENALTY),
    PARAM("presence_penalty", PARAM_PRESENCE_PENALTY),
    PARAM("frequency_penalty", PARAM_FREQUENCY_PENALTY),
    PARAM("max_tokens", PARAM_MAX_NEW_TOKENS),
    PARAM("max_completion_tokens", PARAM_MAX_NEW_TOKENS),
    PARAM("max_new_tokens", PARAM_MAX_NEW_TOKENS),
    LIST("stop", ANY_KIND, api_read_stop),
    LIST("logit_bias", ANY_KIND, api_read_logit_bias),
    OWN("seed", ANY_KIND, read_seed),
    OWN("n", ANY_KIND, read_n),
    OWN("priority", ANY_KIND, read_priority),
    OWN("timeout_ms", ANY_KIND, read_timeout),
    OWN("logprobs", ANY_KIND, read_logprobs),
    OWN("top_logprobs", API_CHAT, read_top_logprobs),
    PLACE("stream", read_bool, stream),
    OWN("stream_options", ANY_KIND, read_stream_options),
    PLACE("user", read_text, user),
    LIST("metadata", ANY_KIND, api_read_metadata),
    PLACE("ignore_eos", read_bool, ignore_end),
    OWN("echo", API_COMPLETION, read_echo),
};

static int check_present(const struct json_at *root, const struct api_request *r, struct err *e)
{
    const char *key = r->kind == API_CHAT ? "messages" : "prompt";
    struct json_at at = json_field(root, key);
    if (!at.v || json_is_null(at.v))
        return api_refuse_field(&at, e, "is required");
    return ERR_OK;
}

int api_request_parse(struct str body, enum api_kind kind, struct arena *a, struct api_request *out,
                      struct err *e)
{
    *out = (struct api_request){.kind = kind, .n = 1};
    int rc;
    TRY(json_parse(body, JSON_UNIQUE_KEYS, &out->doc, e));
    struct json_at root = json_root(out->doc);
    TRY(check_present(&root, out, e));
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        const struct field *f = &FIELDS[i];
        struct json_at at = json_field(&root, f->key);
        if ((f->kinds & (unsigned)kind) && at.v && !json_is_null(at.v))
            TRY(f->read(&at, f, a, out, e));
    }
out:
    return rc;
}

void api_request_close(struct api_request *r)
{
    json_decref(r->doc);
    r->doc = NULL;
}
