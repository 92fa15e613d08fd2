/* One load at a time. The thread writes the result, posts, and ends; the loop joins it before it
 * looks, so the two never touch the fields at once. */
#include "engine/reload.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct reload {
    struct reload_config config;
    pthread_t thread;
    bool is_running; /* loop thread */
    uint64_t id;
    char path[PATH_MAX];
    struct model *model;
    struct err error;
};

static void on_loaded(void *arg)
{
    struct reload *r = arg;
    struct model *m = r->model;
    pthread_join(r->thread, NULL);
    r->is_running = false;
    r->model = NULL;
    r->config.on_end(r->config.ctx, r->id, m, &r->error);
}

static void *load_main(void *arg)
{
    struct reload *r = arg;
    const struct reload_config *c = &r->config;
    int rc = load_other_weights(&r->model, c->load, c->engine, r->path, &r->error);
    if (rc != ERR_OK)
        r->model = NULL;
    (void)http_server_post(c->server, on_loaded, r); /* a loop that ended: close sees to it */
    return NULL;
}

int reload_open(struct reload **out, const struct reload_config *c, struct err *e)
{
    struct reload *r = calloc(1, sizeof *r);
    *out = r;
    if (!r)
        return err_set(e, ERR_NOMEM, "out of memory at start");
    r->config = *c;
    return ERR_OK;
}

int reload_start(struct reload *r, uint64_t id, struct str path, struct err *e)
{
    if (r->is_running)
        return err_set(e, ERR_BUSY, "other weights are being loaded: wait for their result");
    if (path.n == 0 || path.n >= sizeof r->path)
        return err_set(e, ERR_INVALID,
                       "the argument is a GGUF file's path, 1 to %zu bytes; it has "
                       "%zu",
                       sizeof r->path - 1, path.n);
    snprintf(r->path, sizeof r->path, STR_FMT, STR_ARG(path));
    r->id = id;
    r->error = (struct err){0};
    if (pthread_create(&r->thread, NULL, load_main, r) != 0)
        return err_set(e, ERR_IO, "no thread to load with: raise the thread limit");
    r->is_running = true;
    return ERR_OK;
}

void reload_close(struct reload *r)
{
    if (!r)
        return;
    if (r->is_running)
        pthread_join(r->thread, NULL);
    model_close(r->model);
    free(r);
}
