/* Ring under one mutex. The eventfd is a semaphore-free flag: written at each put, read when the
 * ring is found empty, so a reader that drains until NULL never misses an item. */
#include "common/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { GATHER_NS = 300000 };

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    size_t cap, head, count;
    bool closed;
    int fd;
    void *items[];
};

int queue_open(struct queue **out, size_t capacity, bool with_eventfd, struct err *e)
{
    *out = NULL;
    struct queue *q = calloc(1, sizeof *q + capacity * sizeof q->items[0]);
    if (!q || capacity == 0) {
        free(q);
        return err_set(e, ERR_NOMEM, "queue of %zu entries", capacity);
    }
    q->cap = capacity;
    q->fd = with_eventfd ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    if (with_eventfd && q->fd < 0) {
        free(q);
        return err_set_sys(e, ERR_IO, errno, "queue eventfd");
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->not_empty, &attr);
    pthread_cond_init(&q->not_full, &attr);
    pthread_condattr_destroy(&attr);
    *out = q;
    return ERR_OK;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->not_empty);
    pthread_cond_destroy(&q->not_full);
    pthread_mutex_destroy(&q->lock);
    if (q->fd >= 0)
        close(q->fd);
    free(q);
}

static void wake_fd(struct queue *q)
{
    if (q->fd >= 0)
        (void)!write(q->fd, &(uint64_t){1}, 8);
}

static void push_locked(struct queue *q, void *item)
{
    q->items[(q->head + q->count++) % q->cap] = item;
    pthread_cond_signal(&q->not_empty);
    wake_fd(q);
}

static void *pop_locked(struct queue *q)
{
    if (q->count == 0) {
        if (q->fd >= 0)
            (void)!read(q->fd, &(uint64_t){0}, 8);
        return NULL;
    }
    void *item = q->items[q->head];
    q->head = (q->head + 1) % q->cap;
    q->count--;
    pthread_cond_signal(&q->not_full);
    return item;
}

bool queue_try_put(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    bool fits = !q->closed && q->count < q->cap;
    if (fits)
        push_locked(q, item);
    pthread_mutex_unlock(&q->lock);
    return fits;
}

bool queue_put(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->count == q->cap)
        pthread_cond_wait(&q->not_full, &q->lock);
    bool open = !q->closed;
    if (open)
        push_locked(q, item);
    pthread_mutex_unlock(&q->lock);
    return open;
}

void *queue_try_take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    void *item = pop_locked(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

static struct timespec deadline_after(int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += us / 1000000;
    t.tv_nsec += us % 1000000 * 1000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

void *queue_take(struct queue *q, int64_t timeout_us)
{
    struct timespec until = deadline_after(timeout_us < 0 ? 0 : timeout_us);
    pthread_mutex_lock(&q->lock);
    int rc = 0;
    while (!q->closed && q->count == 0 && rc == 0)
        rc = timeout_us < 0 ? pthread_cond_wait(&q->not_empty, &q->lock)
                            : pthread_cond_timedwait(&q->not_empty, &q->lock, &until);
    void *item = pop_locked(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void *queue_take_gathered(struct queue *q)
{
    void *item = queue_try_take(q);
    if (item)
        return item;
    nanosleep(&(struct timespec){.tv_nsec = GATHER_NS}, NULL);
    return queue_take(q, -1);
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->not_empty);
    pthread_cond_broadcast(&q->not_full);
    wake_fd(q);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_count(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t n = q->count;
    pthread_mutex_unlock(&q->lock);
    return n;
}

int queue_fd(const struct queue *q)
{
    return q->fd;
}
