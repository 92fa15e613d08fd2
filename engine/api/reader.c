/* One thread of low priority: on two cores it would else take one from the model. A job in it
 * belongs to this thread, but for the flags that say its client left; it goes back with
 * http_server_post. */
#include "engine/api/reader.h"

#include "common/queue.h"
#include "engine/api/job.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_WAITING = 64, NICENESS = 10 };

struct reader {
    pthread_t thread;
    struct queue *jobs;
    struct http_server *server;
    void (*done)(void *job);
    bool has_thread;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    for (struct job *j; (j = queue_take(r->jobs, -1));) {
        j->read_error = (struct err){0};
        (void)job_read(j, &j->read_error);
        (void)http_server_post(r->server, r->done, j);
    }
    return NULL;
}

int reader_open(struct reader **out, struct http_server *s, void (*done)(void *job), struct err *e)
{
    struct reader *r = calloc(1, sizeof *r);
    *out = r;
    if (!r)
        return err_set(e, ERR_NOMEM, "reader of large bodies");
    r->server = s;
    r->done = done;
    int rc = queue_open(&r->jobs, MAX_WAITING, false, e);
    if (rc == ERR_OK && pthread_create(&r->thread, NULL, reader_main, r) != 0)
        rc = err_set(e, ERR_IO, "a thread could not be started: raise the thread limit");
    r->has_thread = rc == ERR_OK;
    if (rc != ERR_OK) {
        reader_close(r);
        *out = NULL;
    }
    return rc;
}

void reader_close(struct reader *r)
{
    if (!r)
        return;
    if (r->has_thread) {
        while (queue_try_take(r->jobs))
            ; /* nobody will be answered any more */
        queue_close(r->jobs);
        pthread_join(r->thread, NULL);
    }
    queue_free(r->jobs);
    free(r);
}

bool reader_put(struct reader *r, struct job *j)
{
    return queue_try_put(r->jobs, j);
}
