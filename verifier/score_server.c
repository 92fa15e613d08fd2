/* A request becomes one item per text on a crew; the last one that is judged posts the answer to
 * the HTTP loop. Handlers and answers: loop thread. on_judged: the crew's threads.
 *
 * One text: the reward as a bare JSON number, what aiohttp's resp.json() in Miles and slime takes.
 * Unscored is an error status, never a zero: 503 when asking again may help, else 422. */
#include "verifier/score_server.h"

#include "verifier/score_request.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_MAX_BYTES (16 * MiB)
enum { TEXTS_MAX = 4096 }; /* of all requests together, those that wait for a service included */

struct score_server {
    struct http_server *server;
    struct crew *crew;
    struct str key;
    const struct check_set *const *set;
    uint32_t n_set;
    uint64_t seq;    /* loop thread */
    bool is_closing; /* loop thread */
    sem_t closed;
};

struct request;

struct text { /* one to be scored */
    struct crew_item item;
    struct request *request;
    struct buf frame;
    bool is_scored;
    double reward;
    char reason[64];
    json_t *checks;
};

struct request {
    struct score_server *owner;
    struct http_request *http;
    const struct check_set *set;
    bool is_batch, wants_detail;
    size_t n;
    _Atomic size_t n_open;
    struct text text[];
};

static void reply_error(struct http_request *r, int status, const char *message)
{
    struct buf b;
    buf_init(&b, 4 * KiB);
    buf_put_c(&b, "{\"error\":{\"message\":\"");
    buf_put_json(&b, str_from(message));
    buf_put_c(&b, "\"}}");
    http_reply(r, status, "application/json", buf_str(&b));
    buf_free(&b);
}

/* Reasons that another attempt may not meet. */
static bool may_pass_later(const char *reason)
{
    static const char *const REASONS[] = {"timeout",     "server_error", "unreachable",
                                          "overloaded",  "breaker_open", "rate_limited",
                                          "worker_died", "self_test",    "shutdown"};
    for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++)
        if (strcmp(reason, REASONS[i]) == 0)
            return true;
    return false;
}

/* Answers. */

static json_t *check_json(const struct check_result *c)
{
    return json_pack("{s:o,s:s,s:s,s:o,s:o}", "id", json_str(c->id), "kind", c->kind.p, "outcome",
                     score_outcome_name(c->outcome), "value",
                     c->outcome == SCORE_UNSCORED ? json_null() : json_num(c->value), "reason",
                     json_str(c->reason));
}

static json_t *answer_of(struct text *t)
{
    json_t *reward = t->is_scored ? json_num(t->reward) : json_null();
    if (!t->request->wants_detail)
        return reward;
    json_t *checks = t->checks ? t->checks : json_array();
    t->checks = NULL;
    return json_pack("{s:o,s:s,s:s,s:o}", "reward", reward, "reason", t->reason, "version",
                     check_set_version(t->request->set), "checks", checks);
}

static void free_request(struct request *q)
{
    for (size_t i = 0; i < q->n; i++)
        json_decref(q->text[i].checks);
    free(q);
}

static void send_answer(struct request *q, json_t *answer)
{
    struct buf b;
    buf_init(&b, 64 * MiB);
    bool is_good = answer && json_write(answer, &b, NULL) == ERR_OK && !b.failed;
    http_reply_header(q->http, "X-Milepost-Checks", str_from(check_set_version(q->set)));
    if (is_good)
        http_reply(q->http, 200, "application/json", buf_str(&b));
    else
        reply_error(q->http, 500, "no memory for the answer");
    buf_free(&b);
    json_decref(answer);
}

static void answer(void *ctx)
{
    struct request *q = ctx;
    struct text *only = &q->text[0];
    if (!q->is_batch && !q->wants_detail && !only->is_scored) {
        char message[96];
        bool is_passing = may_pass_later(only->reason);
        snprintf(message, sizeof message, "unscored: %s", only->reason);
        if (is_passing)
            http_reply_header(q->http, "Retry-After", STR("1"));
        reply_error(q->http, is_passing ? 503 : 422, message);
    } else if (!q->is_batch) {
        send_answer(q, answer_of(only));
    } else {
        json_t *all = json_array();
        for (size_t i = 0; i < q->n; i++)
            json_array_append_new(all, answer_of(&q->text[i]));
        send_answer(q, all);
    }
    free_request(q);
}

/* Any thread. The loop runs until every request is answered, see score_server_close. */
static void close_one(struct request *q)
{
    if (atomic_fetch_sub(&q->n_open, 1) == 1 && !http_server_post(q->owner->server, answer, q))
        free_request(q);
}

static void on_judged(struct crew_item *item)
{
    struct text *t = (struct text *)item;
    const struct score *s = item->judged == JUDGED_DROPPED ? NULL : item->score;
    t->is_scored = s && s->is_scored;
    t->reward = t->is_scored ? s->reward : 0;
    snprintf(t->reason, sizeof t->reason, STR_FMT, STR_ARG(s ? s->reason : STR("shutdown")));
    if (s && t->request->wants_detail) {
        t->checks = json_array();
        for (uint32_t i = 0; i < s->n_check; i++)
            json_array_append_new(t->checks, check_json(&s->check[i]));
    }
    buf_free(&t->frame);
    buf_free(&item->answer);
    close_one(t->request);
}

/* Requests. */

static const struct check_set *find_set(const struct score_server *s, struct str route)
{
    for (uint32_t i = 0; i < s->n_set; i++)
        if (route.n == 0 || str_eq(check_set_name(s->set[i]), route))
            return s->set[i];
    return NULL;
}

/* As an engine would send it. */
static bool make_frame(struct request *q, size_t i, struct output *o, struct arena *a)
{
    o->engine = STR("score");
    o->epoch = 1;
    o->seq = ++q->owner->seq;
    o->request_id = arena_printf(a, "score-%llu", (unsigned long long)o->seq);
    o->route = check_set_name(q->set);
    o->revision = 1;
    o->arm = STR("champion");
    o->propensity = 1;
    buf_init(&q->text[i].frame, FRAME_MAX_BYTES);
    return o->request_id.p && output_encode(o, &q->text[i].frame, NULL) == ERR_OK &&
           !q->text[i].frame.failed;
}

static void put_text(struct request *q, size_t i, struct output *o, struct arena *a)
{
    struct text *t = &q->text[i];
    t->request = q;
    t->item.done = on_judged;
    bool has_frame = make_frame(q, i, o, a);
    t->item.frame = buf_str(&t->frame);
    if (has_frame && crew_try_put(q->owner->crew, &t->item))
        return;
    snprintf(t->reason, sizeof t->reason, "%s", has_frame ? "overloaded" : "too_large");
    buf_free(&t->frame);
    close_one(q);
}

static void on_score(struct http_request *r, void *ctx)
{
    struct score_server *s = ctx;
    struct score_request parsed;
    struct err e = {0};
    const struct check_set *set = find_set(s, http_request_query(r, "route"));
    struct arena *a = http_request_arena(r);
    if (!http_request_has_key(r, s->key)) {
        http_reply_header(r, "WWW-Authenticate", STR("Bearer"));
        reply_error(r, 401, "the API key is missing or wrong: send Authorization: Bearer KEY");
        return;
    }
    if (s->is_closing) {
        reply_error(r, 503, "stopping");
        return;
    }
    if (!set) {
        reply_error(r, 404, "route: not in the configuration");
        return;
    }
    if (score_request_parse(http_request_body(r), a, &parsed, &e) != ERR_OK) {
        reply_error(r, 400, e.msg);
        return;
    }
    if (crew_count(s->crew) + parsed.n > TEXTS_MAX) {
        http_reply_header(r, "Retry-After", STR("1"));
        reply_error(r, 503, "overloaded");
        return;
    }
    struct request *q = calloc(1, sizeof *q + (parsed.n + 1) * sizeof q->text[0]);
    if (!q) {
        reply_error(r, 503, "no memory");
        return;
    }
    q->owner = s;
    q->http = r;
    q->set = set;
    q->is_batch = parsed.is_batch;
    q->wants_detail = http_request_query(r, "detail").p != NULL;
    q->n = parsed.n;
    atomic_store(&q->n_open, parsed.n + 1); /* one is ours, until all are put */
    for (size_t i = 0; i < parsed.n; i++)
        put_text(q, i, &parsed.output[i], a);
    close_one(q);
}

int score_server_open(struct score_server **out, struct http_server *server, struct str key,
                      const struct crew_config *crew, struct err *e)
{
    *out = NULL;
    struct score_server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for the reward server");
    s->server = server;
    s->key = key;
    s->set = (const struct check_set *const *)crew->judge.set;
    s->n_set = crew->judge.n_set;
    sem_init(&s->closed, 0, 0);
    struct crew_config c = *crew;
    c.max_queue = TEXTS_MAX;
    int rc = http_server_route(server, "POST", "/score", on_score, s, e);
    if (rc == ERR_OK)
        rc = crew_open(&s->crew, &c, e);
    if (rc != ERR_OK) {
        sem_destroy(&s->closed);
        free(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

static void refuse(void *ctx)
{
    struct score_server *s = ctx;
    s->is_closing = true;
    sem_post(&s->closed);
}

void score_server_close(struct score_server *s, uint32_t grace_ms)
{
    if (!s)
        return;
    if (http_server_post(s->server, refuse, s))
        while (sem_wait(&s->closed) != 0) {
        }
    crew_close(s->crew, grace_ms);
    s->crew = NULL;
}

void score_server_free(struct score_server *s)
{
    if (!s)
        return;
    crew_close(s->crew, 0); /* the loop never ran */
    sem_destroy(&s->closed);
    free(s);
}
