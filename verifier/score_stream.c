/* A ring of items: the calling thread reads lines into it and writes what is done from its head;
 * the crew judges between. The window is small, so that a slow service is not asked about more at
 * once than can be answered within the checks' timeouts. */
#include "verifier/score_stream.h"

#include "verifier/crew.h"

#include <pthread.h>
#include <stdlib.h>

enum { WINDOW = 64, STOP_MS = 1000 };
#define LINE_MAX_BYTES (16 * MiB)

struct stream;

struct line {
    struct crew_item item;
    struct stream *stream;
    struct buf text;
    bool is_done; /* under the lock */
};

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct line line[WINDOW];
    uint64_t n_read, n_written;
    FILE *out;
};

static void on_judged(struct crew_item *item)
{
    struct line *l = (struct line *)item;
    struct stream *s = l->stream;
    pthread_mutex_lock(&s->lock);
    l->is_done = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void wait_for(struct stream *s, const struct line *l)
{
    pthread_mutex_lock(&s->lock);
    while (!l->is_done)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Writes the line at the head, waiting for it. */
static int write_one(struct stream *s, struct err *e)
{
    struct line *l = &s->line[s->n_written++ % WINDOW];
    wait_for(s, l);
    bool is_scored = l->item.judged != JUDGED_DROPPED && l->item.answer.n > 0;
    struct str text = is_scored ? buf_str(&l->item.answer) : STR("null");
    bool is_good = fwrite(text.p, 1, text.n, s->out) == text.n && fputc('\n', s->out) != EOF;
    buf_free(&l->text);
    buf_free(&l->item.answer);
    return is_good ? ERR_OK : err_set(e, ERR_IO, "score: nobody reads the scores");
}

static int put_line(struct stream *s, struct crew *crew, const char *p, size_t n, struct err *e)
{
    int rc = ERR_OK;
    if (s->n_read - s->n_written == WINDOW)
        rc = write_one(s, e);
    struct line *l = &s->line[s->n_read % WINDOW];
    *l = (struct line){.item.done = on_judged, .stream = s};
    buf_init(&l->text, LINE_MAX_BYTES);
    buf_put(&l->text, p, n);
    if (rc == ERR_OK)
        rc = buf_check(&l->text, "a line of outputs", e);
    if (rc != ERR_OK) {
        buf_free(&l->text);
        return rc;
    }
    s->n_read++;
    l->item.frame = buf_str(&l->text);
    if (!crew_put(crew, &l->item)) /* never: it is closed later, by this thread */
        return err_set(e, ERR_BUG, "score: closed");
    return ERR_OK;
}

static int pump(struct stream *s, struct crew *crew, FILE *in, struct err *e)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = ERR_OK;
    while (rc == ERR_OK && (n = getline(&text, &cap, in)) > 0) {
        n -= text[n - 1] == '\n';
        rc = put_line(s, crew, text, (size_t)n, e);
    }
    free(text);
    while (s->n_written < s->n_read) { /* also after an error: their threads still use them */
        int written = write_one(s, e);
        rc = rc == ERR_OK ? written : rc;
    }
    if (rc == ERR_OK && fflush(s->out) != 0)
        rc = err_set(e, ERR_IO, "score: nobody reads the scores");
    return rc;
}

static int attach_all(const struct service_sets *sets, struct remote *remote, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; i < sets->n && rc == ERR_OK; i++)
        rc = check_set_attach(sets->set[i], remote, e);
    return rc;
}

int score_stream_run(const struct milepost_config *c, const struct service_sets *sets, FILE *in,
                     FILE *out, struct err *e)
{
    struct metrics *metrics = metrics_new();
    struct remote *remote = NULL;
    struct crew *crew = NULL;
    struct stream s = {.out = out};
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    int rc = remote_open(&remote, metrics, e);
    if (rc == ERR_OK)
        rc = attach_all(sets, remote, e);
    const struct crew_config config = {.judge = {c->verifier.id.n ? c->verifier.id : STR("score"),
                                                 sets->set, sets->n, &CLOCK_REAL},
                                       .remote = remote,
                                       .workers = (uint32_t)c->verifier.threads,
                                       .max_queue = WINDOW,
                                       .max_frame_bytes = LINE_MAX_BYTES};
    if (rc == ERR_OK)
        rc = crew_open(&crew, &config, e);
    if (rc == ERR_OK)
        rc = pump(&s, crew, in, e);
    crew_close(crew, STOP_MS);
    remote_close(remote);
    metrics_free(metrics);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    return rc;
}
