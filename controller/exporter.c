/* asked -> file.part -> file -> told (the writer). Killed anywhere before the writer's commit, the
 * request still stands as asked and the file is made again under the same name.
 *
 * Threads: the exporter owns all; the writer reads `result` while the exporter waits for `told`. */
#include "controller/exporter.h"

#include "common/hash.h"
#include "common/io.h"
#include "common/log.h"
#include "controller/dataset.h"
#include "controller/notices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pthread.h>

enum { LOOK_EVERY_US = 1000000, TELL_AGAIN_US = 1000000, EXPORT_MEMORY = 1024 * 1024 };

struct exporter {
    struct store *store;
    const char *folder;
    struct queue *commands;
    struct queue *bell; /* whatever lies in it means: look */
    struct arena arena, own;
    struct stored_dataset result;
    struct queue *told; /* the result's command, when it was answered */
    atomic_bool is_stopping;
    bool is_running;
    pthread_t thread;
};

int exporter_open(struct exporter **out, const struct milepost_config *c, const char *database,
                  struct queue *commands, struct err *e)
{
    *out = NULL;
    struct exporter *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(e, ERR_NOMEM, "no memory for the exporter");
    x->commands = commands;
    arena_init(&x->own, 64 * KiB);
    arena_init(&x->arena, EXPORT_MEMORY);
    x->folder = milepost_config_path(c, c->controller.datasets, &x->own);
    int rc = x->folder ? queue_open(&x->bell, 1, false, e)
                       : err_set(e, ERR_NOMEM, "no memory for the exporter");
    if (rc == ERR_OK)
        rc = queue_open(&x->told, 1, false, e);
    if (rc == ERR_OK)
        rc = store_open_readonly(&x->store, database, e);
    if (rc != ERR_OK) {
        exporter_close(x);
        return rc;
    }
    *out = x;
    return ERR_OK;
}

static bool is_going_on(void *ctx, uint64_t done, uint64_t total)
{
    const struct exporter *x = ctx;
    (void)done;
    (void)total;
    return !atomic_load(&x->is_stopping);
}

/* Of a file of any size: its pages come and go. */
static int hash_file(const char *path, char hex[SHA256_HEX], struct err *e)
{
    struct stat st;
    void *p = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = fd >= 0 && fstat(fd, &st) == 0 ? ERR_OK
                                            : err_set_sys(e, ERR_IO, errno, "cannot read %s", path);
    if (rc == ERR_OK && st.st_size == 0)
        sha256_hex(STR(""), hex);
    else if (rc == ERR_OK)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (rc == ERR_OK && st.st_size > 0 && p == MAP_FAILED)
        rc = err_set_sys(e, ERR_IO, errno, "cannot map %s", path);
    if (p != MAP_FAILED) {
        sha256_hex((struct str){p, (size_t)st.st_size}, hex);
        munmap(p, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_part(struct exporter *x, const char *part, struct dataset_report *report,
                      struct err *e)
{
    const struct stored_dataset *d = &x->result;
    struct dataset_query q = {.route = d->route,
                              .since_us = d->since_us,
                              .until_us = d->until_us,
                              .only_scored = d->only_scored,
                              .progress = is_going_on,
                              .ctx = x};
    int rc = io_make_dir(x->folder, e);
    int fd = rc == ERR_OK ? open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (rc == ERR_OK && fd < 0)
        rc = err_set_sys(e, ERR_IO, errno, "cannot write %s", part);
    if (rc == ERR_OK)
        rc = dataset_write(x->store, &q, fd, report, e);
    if (rc == ERR_OK && fsync(fd) != 0)
        rc = err_set_sys(e, ERR_IO, errno, "cannot write %s", part);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_file(struct exporter *x, struct err *e)
{
    struct stored_dataset *d = &x->result;
    struct dataset_report r = {0};
    char hex[SHA256_HEX];
    struct str path = arena_printf(&x->arena, "%s/" STR_FMT "-" STR_FMT ".jsonl", x->folder,
                                   STR_ARG(d->route), STR_ARG(d->id));
    struct str part = arena_printf(&x->arena, STR_FMT ".part", STR_ARG(path));
    int rc = ERR_OK;
    if (!path.p || !part.p)
        return err_set(e, ERR_NOMEM, "no memory for the exporter");
    TRY(write_part(x, part.p, &r, e));
    TRY(hash_file(part.p, hex, e));
    if (rename(part.p, path.p) != 0)
        TRY(err_set_sys(e, ERR_IO, errno, "cannot write %s", path.p));
    char *full = realpath(path.p, NULL); /* whoever is told may run elsewhere */
    d->path = arena_str(&x->arena, full ? str_from(full) : path);
    free(full);
    d->sha256 = arena_str(&x->arena, str_from(hex));
    if (!d->path.p || !d->sha256.p)
        TRY(err_set(e, ERR_NOMEM, "no memory for the exporter"));
    d->n_bytes = r.n_bytes;
    d->n_outputs = r.n_rows;
    d->n_without_text = r.n_without_text;
    d->first_row = r.first_row;
    d->last_row = r.last_row;
    d->first_revision = r.first_revision;
    d->last_revision = r.last_revision;
out:
    if (rc != ERR_OK)
        unlink(part.p);
    return rc;
}

static int write_result(struct ledger *l, struct command *c, struct err *e)
{
    const struct exporter *x = c->ctx;
    int rc = store_end_dataset(l->store, &x->result, l->now_us, e);
    return rc == ERR_OK && x->result.state == DATASET_THERE ? notices_dataset(l, &x->result, e)
                                                            : rc;
}

static void result_written(struct command *c)
{
    struct exporter *x = c->ctx;
    queue_try_put(x->told, c);
}

/* False: not written. */
static bool tell(struct exporter *x)
{
    struct command *c = command_new(COMMAND_WRITE);
    if (!c)
        return false;
    c->write = write_result;
    c->done = result_written;
    c->ctx = x;
    if (!queue_try_put(x->commands, c)) {
        command_free(c);
        return false;
    }
    while (!(c = queue_take(x->told, LOOK_EVERY_US)))
        if (atomic_load(&x->is_stopping)) /* the answer comes when the loop is closed */
            return false;
    bool is_done = c && c->err.code == ERR_OK;
    command_free(c);
    return is_done;
}

static void export_one(struct exporter *x)
{
    struct err e = {0};
    int rc = make_file(x, &e);
    if (rc == ERR_CANCELLED)
        return;
    x->result.state = rc == ERR_OK ? DATASET_THERE : DATASET_FAILED;
    if (rc == ERR_OK)
        e = (struct err){0};
    x->result.error = str_from(e.msg);
    log_event(rc == ERR_OK ? LOG_INFO : LOG_ERROR,
              rc == ERR_OK ? "dataset.there" : "dataset.failed",
              "id=" STR_FMT " route=" STR_FMT " outputs=%llu why=\"%s\"", STR_ARG(x->result.id),
              STR_ARG(x->result.route), (unsigned long long)x->result.n_outputs, e.msg);
    while (!tell(x) && !atomic_load(&x->is_stopping))
        queue_take(x->bell, TELL_AGAIN_US);
}

static void *run(void *ctx)
{
    struct exporter *x = ctx;
    while (!atomic_load(&x->is_stopping)) {
        struct err e = {0};
        arena_reset(&x->arena);
        int rc = store_next_dataset(x->store, &x->arena, &x->result, &e);
        if (rc == ERR_OK) {
            export_one(x);
            continue;
        }
        if (rc != ERR_NOT_FOUND)
            log_event(LOG_ERROR, "dataset.failed", "why=\"%s\"", e.msg);
        queue_take(x->bell, LOOK_EVERY_US);
    }
    return NULL;
}

int exporter_start(struct exporter *x, struct err *e)
{
    if (pthread_create(&x->thread, NULL, run, x) != 0)
        return err_set(e, ERR_NOMEM, "cannot start a thread for datasets");
    x->is_running = true;
    return ERR_OK;
}

void exporter_wake(struct exporter *x)
{
    queue_try_put(x->bell, x); /* full: it will look anyway */
}

void exporter_stop(struct exporter *x)
{
    if (!x || !x->is_running)
        return;
    atomic_store(&x->is_stopping, true);
    exporter_wake(x);
    pthread_join(x->thread, NULL);
    x->is_running = false;
}

void exporter_close(struct exporter *x)
{
    if (!x)
        return;
    exporter_stop(x);
    if (x->told)
        command_free(queue_try_take(x->told));
    store_close(x->store);
    queue_free(x->bell);
    queue_free(x->told);
    arena_free(&x->arena);
    arena_free(&x->own);
    free(x);
}
