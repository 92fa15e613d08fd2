/* Clients take the next conversation under a lock and fire its turns. A shot belongs to the client
 * that fires it until `counts` includes it; the lock guards next, counts and n_running. */
#include "controller/cli/bench/volley.h"

#include "common/clock.h"
#include "common/hash.h"
#include "common/http_client.h"
#include "common/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_HISTORY = 4 * 1024 * 1024 };

struct volley {
    struct volley_options o;
    struct shot *shots; /* [n_conversations * n_turns] */
    uint64_t *due_us;   /* [n_conversations], from begin_us */
    uint64_t *digest;   /* [n_conversations] */
    struct buf prefix;
    uint64_t begin_us;
    pthread_mutex_t lock;
    pthread_t client[VOLLEY_MAX_CLIENTS];
    uint32_t n_started, n_running, next;
    struct volley_counts counts;
};

struct client {
    struct volley *volley;
    struct http_client *http;
    struct buf history; /* JSON of the messages so far, each with a comma after it */
    struct buf body, answer, text;
};

static uint64_t now_us(void)
{
    return clock_mono(&CLOCK_REAL).us;
}

static void put_message(struct buf *out, const char *role, struct str content)
{
    buf_printf(out, "{\"role\":\"%s\",\"content\":\"", role);
    buf_put_json(out, content);
    buf_put_c(out, "\"},");
}

static void write_body(struct client *c, const struct turn_size *size, uint64_t seed)
{
    const struct volley_options *o = &c->volley->o;
    struct str messages = buf_str(&c->history);

    buf_reset(&c->body);
    buf_put_char(&c->body, '{');
    if (o->model[0] != '\0') {
        buf_put_c(&c->body, "\"model\":\"");
        buf_put_json(&c->body, str_from(o->model));
        buf_put_c(&c->body, "\",");
    }
    buf_printf(&c->body, "\"messages\":[" STR_FMT "],",
               STR_ARG(str_slice(messages, 0, messages.n - 1)));
    buf_printf(&c->body, "\"max_tokens\":%u,\"temperature\":%s,\"seed\":%llu,", size->output_tokens,
               o->sampling, (unsigned long long)(seed & INT32_MAX));
    if (!o->may_stop)
        buf_put_c(&c->body, "\"ignore_eos\":true,");
    if (o->extra[0] != '\0')
        buf_printf(&c->body, "%s,", o->extra);
    buf_put_c(&c->body, "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
}

static void count(struct volley *v, const struct shot *s)
{
    pthread_mutex_lock(&v->lock);
    v->counts.done++;
    v->counts.failed += !s->is_ok;
    v->counts.tokens += s->completion_tokens;
    pthread_mutex_unlock(&v->lock);
}

/* False when the conversation cannot go on. */
static bool fire_turn(struct client *c, uint32_t conversation, uint32_t turn, uint64_t due_us)
{
    struct volley *v = c->volley;
    struct shot *s = &v->shots[(size_t)conversation * v->o.n_turns + turn];
    struct turn_size size = workload_turn(&v->o.load, conversation, turn);

    buf_reset(&c->text);
    workload_text(&v->o.load, conversation, turn, &c->text);
    put_message(&c->history, "user", buf_str(&c->text));
    write_body(c, &size, v->o.load.seed + conversation);
    *s = (struct shot){.conversation = conversation, .turn = turn, .max_gap = size.output_tokens};
    s->gap_us = calloc(size.output_tokens, sizeof *s->gap_us);
    s->due_us = due_us > 0 ? due_us : now_us();
    s->start_us = s->due_us;
    buf_reset(&c->answer);
    if (s->gap_us == NULL || c->body.failed || c->history.failed)
        snprintf(s->error, sizeof s->error, "no memory for a request of this size");
    else
        shot_fire(s, &v->o.target, c->http, buf_str(&c->body), &c->answer);
    put_message(&c->history, "assistant", buf_str(&c->answer));
    v->digest[conversation] = hash64(c->answer.p, c->answer.n, v->digest[conversation]);
    count(v, s);
    return s->is_ok;
}

static void sleep_until(uint64_t at_us)
{
    uint64_t now = now_us();
    struct timespec t;

    if (at_us <= now)
        return;
    t = (struct timespec){(time_t)((at_us - now) / 1000000),
                          (long)((at_us - now) % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static void converse(struct client *c, uint32_t conversation)
{
    struct volley *v = c->volley;
    uint64_t due_us = 0;

    if (v->o.load.rate_s > 0) {
        due_us = v->begin_us + v->due_us[conversation];
        sleep_until(due_us);
    }
    buf_reset(&c->history);
    if (v->prefix.n > 0)
        put_message(&c->history, "system", buf_str(&v->prefix));
    for (uint32_t turn = 0; turn < v->o.n_turns; turn++)
        if (!fire_turn(c, conversation, turn, turn == 0 ? due_us : 0))
            return;
}

/* In an open loop a client waits for the arrival after it has taken the conversation. */
static bool is_in_time(const struct volley *v)
{
    uint64_t limit_us = (uint64_t)v->o.max_seconds * 1000000;
    uint64_t at_us = v->o.load.rate_s > 0 ? v->due_us[v->next] : now_us() - v->begin_us;
    return limit_us == 0 || at_us < limit_us;
}

static bool take(struct volley *v, uint32_t *conversation)
{
    pthread_mutex_lock(&v->lock);
    bool has_more = v->next < v->o.n_conversations && is_in_time(v);
    if (has_more)
        *conversation = v->next++;
    pthread_mutex_unlock(&v->lock);
    return has_more;
}

static void *work(void *arg)
{
    struct client c = {.volley = arg};
    struct volley *v = arg;
    uint32_t conversation;

    buf_init(&c.history, MAX_HISTORY);
    buf_init(&c.body, MAX_HISTORY);
    buf_init(&c.answer, MAX_HISTORY);
    buf_init(&c.text, MAX_HISTORY);
    if (http_client_open(&c.http, NULL) == ERR_OK)
        while (take(v, &conversation))
            converse(&c, conversation);
    http_client_close(c.http);
    buf_free(&c.history);
    buf_free(&c.body);
    buf_free(&c.answer);
    buf_free(&c.text);
    pthread_mutex_lock(&v->lock);
    v->n_running--;
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

static int reserve(struct volley *v, struct err *e)
{
    size_t n = v->o.n_conversations;

    v->shots = calloc(n * v->o.n_turns, sizeof *v->shots);
    v->due_us = calloc(n, sizeof *v->due_us);
    v->digest = calloc(n, sizeof *v->digest);
    buf_init(&v->prefix, MAX_HISTORY);
    workload_prefix(&v->o.load, &v->prefix);
    if (v->shots == NULL || v->due_us == NULL || v->digest == NULL || v->prefix.failed)
        return err_set(e, ERR_NOMEM, "a load of %zu conversations", n);
    workload_arrivals(&v->o.load, v->due_us, v->o.n_conversations);
    return ERR_OK;
}

static int start_clients(struct volley *v, struct err *e)
{
    uint32_t wanted = v->o.n_clients;

    v->n_running = wanted;
    v->begin_us = now_us();
    while (v->n_started < wanted && pthread_create(&v->client[v->n_started], NULL, work, v) == 0)
        v->n_started++;
    if (v->n_started == wanted)
        return ERR_OK;
    pthread_mutex_lock(&v->lock);
    v->next = v->o.n_conversations;
    pthread_mutex_unlock(&v->lock);
    return err_set(e, ERR_NOMEM, "cannot start %u threads", wanted);
}

int volley_start(struct volley **out, const struct volley_options *o, struct err *e)
{
    struct volley *v = calloc(1, sizeof *v);

    *out = NULL;
    if (v == NULL)
        return err_set(e, ERR_NOMEM, "volley");
    v->o = *o;
    pthread_mutex_init(&v->lock, NULL);
    int rc = reserve(v, e);
    if (rc == ERR_OK)
        rc = start_clients(v, e);
    if (rc != ERR_OK) {
        volley_free(v);
        return rc;
    }
    *out = v;
    return ERR_OK;
}

bool volley_finished(struct volley *v)
{
    pthread_mutex_lock(&v->lock);
    bool is_finished = v->n_running == 0;
    pthread_mutex_unlock(&v->lock);
    return is_finished;
}

void volley_read(struct volley *v, struct volley_counts *out)
{
    pthread_mutex_lock(&v->lock);
    *out = v->counts;
    pthread_mutex_unlock(&v->lock);
}

static void join(struct volley *v)
{
    for (uint32_t i = 0; i < v->n_started; i++)
        pthread_join(v->client[i], NULL);
    v->n_started = 0;
}

void volley_wait(struct volley *v, struct shot **shots, uint32_t *n, uint64_t *begin_us)
{
    join(v);
    *shots = v->shots;
    *n = v->o.n_conversations * v->o.n_turns;
    *begin_us = v->begin_us;
}

uint64_t volley_digest(const struct volley *v)
{
    return hash64(v->digest, v->o.n_conversations * sizeof *v->digest, 0);
}

void volley_free(struct volley *v)
{
    if (v == NULL)
        return;
    join(v);
    for (size_t i = 0; v->shots != NULL && i < (size_t)v->o.n_conversations * v->o.n_turns; i++)
        free(v->shots[i].gap_us);
    free(v->shots);
    free(v->due_us);
    free(v->digest);
    buf_free(&v->prefix);
    pthread_mutex_destroy(&v->lock);
    free(v);
}
