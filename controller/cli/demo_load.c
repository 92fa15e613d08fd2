/* Workers take the next number under a lock, send that prompt, add up. The lock guards all of
 * struct load's mutable fields. */
#include "controller/cli/demo_load.h"

#include "common/http_client.h"
#include "common/io.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_TIMEOUT_MS = 120000 };

struct load {
    struct load_options options;
    pthread_mutex_t lock;
    pthread_t worker[LOAD_MAX_WORKERS];
    uint32_t n_worker, n_running;
    bool is_stopping;
    struct load_counts counts;
};

static int add_line(struct prompts *p, struct str line, size_t number, const char *path,
                    struct err *e)
{
    json_t *doc = NULL;

    if (p->n == PROMPTS_MAX)
        return err_set(e, ERR_INVALID, "%s: more than %d lines", path, PROMPTS_MAX);
    if (json_parse(line, 0, &doc, e) != ERR_OK)
        return err_wrap(e, "%s:%zu", path, number);
    if (json_array_size(json_object_get(doc, "messages")) == 0) {
        json_decref(doc);
        return err_set(e, ERR_INVALID, "%s:%zu: no messages", path, number);
    }
    p->line[p->n++] = doc;
    return ERR_OK;
}

int prompts_load(struct prompts *p, const char *path, struct err *e)
{
    struct buf text;
    size_t number = 0;

    *p = (struct prompts){.n = 0};
    buf_init(&text, 16 * MiB);
    int rc = io_read_file(path, &text, e);
    struct str rest = buf_str(&text), line;
    while (rc == ERR_OK && str_split(&rest, '\n', &line)) {
        number++;
        if (str_trim(line).n > 0)
            rc = add_line(p, line, number, path, e);
    }
    if (rc == ERR_OK && p->n == 0)
        rc = err_set(e, ERR_INVALID, "%s holds no prompt", path);
    buf_free(&text);
    if (rc != ERR_OK)
        prompts_free(p);
    return rc;
}

void prompts_free(struct prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        json_decref(p->line[i]);
    p->n = 0;
}

/* The next request's number, or false when there is none. */
static bool take_number(struct load *l, uint64_t *number)
{
    pthread_mutex_lock(&l->lock);
    bool has_more = !l->is_stopping && l->counts.started < l->options.max;
    if (has_more)
        *number = l->options.first + l->counts.started++;
    pthread_mutex_unlock(&l->lock);
    return has_more;
}

/* jansson's reference counts are not locked: the lock is held while the shared line is read. */
static int write_body(struct load *l, uint64_t number, struct buf *out, struct err *e)
{
    pthread_mutex_lock(&l->lock);
    const json_t *line = l->options.prompts->line[number % l->options.prompts->n];
    json_t *body =
        json_pack("{s:O, s:O?, s:I}", "messages", json_object_get(line, "messages"), "metadata",
                  json_object_get(line, "metadata"), "seed", (json_int_t)number);
    buf_reset(out);
    int rc = body != NULL ? json_write(body, out, e) : err_set(e, ERR_NOMEM, "a request body");
    json_decref(body);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static uint64_t tokens_of(struct str body)
{
    json_t *doc = NULL;

    if (json_parse(body, 0, &doc, NULL) != ERR_OK)
        return 0;
    json_int_t n =
        json_integer_value(json_object_get(json_object_get(doc, "usage"), "completion_tokens"));
    json_decref(doc);
    return n > 0 ? (uint64_t)n : 0;
}

static void note_result(struct load *l, uint64_t tokens, const struct err *e)
{
    pthread_mutex_lock(&l->lock);
    l->counts.done++;
    l->counts.tokens += tokens;
    if (e->code != ERR_OK) {
        l->counts.failed++;
        snprintf(l->counts.last_error, sizeof l->counts.last_error, "%s", e->msg);
    }
    pthread_mutex_unlock(&l->lock);
}

static void one_request(struct load *l, struct http_client *http, const char *route_header,
                        uint64_t number, struct buf *body)
{
    const char *headers[] = {route_header, l->options.bearer, NULL};
    struct http_result r = {0};
    struct err e = {0};
    uint64_t tokens = 0;

    if (write_body(l, number, body, &e) == ERR_OK) {
        struct http_call call = {.url = l->options.url,
                                 .body = buf_str(body),
                                 .headers = headers,
                                 .timeout_ms = REQUEST_TIMEOUT_MS};
        if (http_client_call(http, &call, &r, &e) == ERR_OK && r.status != 200)
            err_set(&e, ERR_IO, "status %d: " STR_FMT, r.status,
                    STR_ARG(str_slice(buf_str(&r.body), 0, 160)));
        tokens = tokens_of(buf_str(&r.body));
        http_result_free(&r);
    }
    note_result(l, tokens, &e);
}

static void *work(void *ctx)
{
    struct load *l = ctx;
    struct http_client *http = NULL;
    struct buf body;
    char route_header[128];
    uint64_t number;
    struct err e = {0};

    buf_init(&body, MiB);
    snprintf(route_header, sizeof route_header, "X-Milepost-Route: %s", l->options.route);
    if (http_client_open(&http, &e) != ERR_OK)
        note_result(l, 0, &e);
    while (http != NULL && take_number(l, &number))
        one_request(l, http, route_header, number, &body);
    http_client_close(http);
    buf_free(&body);
    pthread_mutex_lock(&l->lock);
    l->n_running--;
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int load_start(struct load **out, const struct load_options *o, struct err *e)
{
    struct load *l = calloc(1, sizeof *l);

    *out = NULL;
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "load");
    l->options = *o;
    pthread_mutex_init(&l->lock, NULL);
    uint32_t wanted = o->workers < LOAD_MAX_WORKERS ? o->workers : LOAD_MAX_WORKERS;
    l->n_running = wanted;
    while (l->n_worker < wanted && pthread_create(&l->worker[l->n_worker], NULL, work, l) == 0)
        l->n_worker++;
    if (l->n_worker == wanted) {
        *out = l;
        return ERR_OK;
    }
    load_stop(l, NULL);
    return err_set(e, ERR_NOMEM, "cannot start %u threads", wanted);
}

bool load_finished(struct load *l)
{
    pthread_mutex_lock(&l->lock);
    bool is_finished = l->n_running == 0;
    pthread_mutex_unlock(&l->lock);
    return is_finished;
}

void load_read(struct load *l, struct load_counts *out)
{
    pthread_mutex_lock(&l->lock);
    *out = l->counts;
    pthread_mutex_unlock(&l->lock);
}

void load_stop(struct load *l, struct load_counts *out)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->is_stopping = true;
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < l->n_worker; i++)
        pthread_join(l->worker[i], NULL);
    if (out != NULL)
        *out = l->counts;
    pthread_mutex_destroy(&l->lock);
    free(l);
}
