/* In-memory twin of the bus: same behaviour inside one process, for tests and simulation.
 *
 * Addresses are names: a bound and a connected socket with the same name are peers when their
 * kinds fit. Each socket owns a bounded inbox; an eventfd is readable while it holds something.
 * Invariant: all lists are guarded by the bus's lock; messages move, they are never shared. */
#include "common/bus_backend.h"
#include "common/rng.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_NAMES = 16 };

struct letter {
    struct letter *next;
    char sender[BUS_ADDRESS_BYTES];
    uint64_t due_us; /* not before; 0 = at once */
    size_t n;
    char bytes[];
};

struct memory_socket {
    struct bus_socket base;
    struct memory_bus *bus;
    struct memory_socket *next;
    char name[MAX_NAMES][BUS_ADDRESS_BYTES];
    uint32_t n_name;
    char identity[BUS_ADDRESS_BYTES];
    bool is_bound;
    int fd;
    struct letter *first, **last;
    uint32_t n_letter, high_water;
    uint64_t turn; /* of the last letter received, for round robin among peers */
};

struct memory_bus {
    struct bus base;
    pthread_mutex_t lock;
    struct memory_socket *first;
    uint64_t turn, n_identity;
    struct bus_faults faults;
    struct rng rng; /* of the faults */
};

static bool kinds_fit(enum bus_kind a, enum bus_kind b)
{
    return (a == BUS_PUSH && b == BUS_PULL) || (a == BUS_PULL && b == BUS_PUSH) ||
           (a == BUS_DEALER && b == BUS_ROUTER) || (a == BUS_ROUTER && b == BUS_DEALER);
}

static bool are_peers(const struct memory_socket *a, const struct memory_socket *b)
{
    if (a->is_bound == b->is_bound || !kinds_fit(a->base.kind, b->base.kind))
        return false;
    for (uint32_t i = 0; i < a->n_name; i++) {
        for (uint32_t j = 0; j < b->n_name; j++) {
            if (strcmp(a->name[i], b->name[j]) == 0)
                return true;
        }
    }
    return false;
}

/* The peer that waited longest among those with room; NULL when there is none. */
static struct memory_socket *choose_locked(struct memory_socket *s, struct str peer, bool *is_known)
{
    struct memory_socket *best = NULL;
    *is_known = false;
    for (struct memory_socket *t = s->bus->first; t; t = t->next) {
        if (!are_peers(s, t) || (s->base.kind == BUS_ROUTER && !str_eq_c(peer, t->identity)))
            continue;
        *is_known = true;
        if (t->n_letter < t->high_water && (!best || t->turn < best->turn))
            best = t;
    }
    return best;
}

static void signal_locked(struct memory_socket *s)
{
    uint64_t one = 1;
    if (s->n_letter == 1 && write(s->fd, &one, sizeof one) < 0)
        return; /* the counter cannot overflow: one signal while letters wait */
}

static struct letter *new_letter(const struct memory_socket *from, struct str message)
{
    struct letter *m = malloc(sizeof *m + message.n);
    if (!m)
        return NULL;
    *m = (struct letter){.n = message.n};
    memcpy(m->sender, from->identity, sizeof m->sender);
    if (message.n)
        memcpy(m->bytes, message.p, message.n);
    return m;
}

static bool happens(struct memory_bus *b, double chance)
{
    return chance > 0.0 && rng_uniform(&b->rng) < chance;
}

static uint64_t due_locked(struct memory_bus *b)
{
    const struct bus_faults *f = &b->faults;
    if (!f->clock || f->delay_us <= 0.0)
        return 0;
    return clock_mono(f->clock).us + (uint64_t)(-f->delay_us * log1p(-rng_uniform(&b->rng)));
}

/* Takes m. At the end of the inbox, or before the last letter. */
static void deliver_locked(struct memory_socket *to, struct letter *m, bool before_last)
{
    struct letter **at = to->last;
    if (before_last && to->first) {
        at = &to->first;
        while ((*at)->next)
            at = &(*at)->next;
    }
    m->due_us = due_locked(to->bus);
    m->next = *at;
    *at = m;
    if (!m->next)
        to->last = &m->next;
    to->n_letter++;
    signal_locked(to);
}

static int memory_send(struct bus_socket *base, struct str peer, struct str message, struct err *e)
{
    struct memory_socket *s = (struct memory_socket *)base;
    struct memory_bus *b = s->bus;
    struct letter *m = new_letter(s, message), *twin = NULL;
    if (!m)
        return err_set(e, ERR_NOMEM, "bus %s: no memory for a message", base->address);
    bool is_known, is_lost = false;
    pthread_mutex_lock(&b->lock);
    struct memory_socket *to = choose_locked(s, peer, &is_known);
    if (to && b->faults.on_send)
        b->faults.on_send(b->faults.ctx, str_from(base->address), message);
    if (to) {
        to->turn = ++b->turn;
        is_lost = happens(b, b->faults.loss);
        if (!is_lost && happens(b, b->faults.duplicate))
            twin = new_letter(s, message);
        if (twin)
            deliver_locked(to, twin, false);
        if (!is_lost)
            deliver_locked(to, m, happens(b, b->faults.reorder));
    }
    pthread_mutex_unlock(&b->lock);
    if (!to || is_lost)
        free(m);
    if (to)
        return ERR_OK;
    if (base->kind == BUS_ROUTER && !is_known)
        return err_set(e, ERR_NOT_FOUND, "bus %s: peer is not connected", base->address);
    return err_set(e, ERR_BUSY, "bus %s: peer absent or its queue is full", base->address);
}

/* Where the first letter that has arrived hangs; its end: none has. */
static struct letter **arrived_locked(struct memory_socket *s)
{
    const struct clock *clock = s->bus->faults.clock;
    struct letter **at = &s->first;
    uint64_t now_us = clock ? clock_mono(clock).us : UINT64_MAX;
    while (*at && (*at)->due_us > now_us)
        at = &(*at)->next;
    return at;
}

static struct letter *take(struct memory_socket *s)
{
    pthread_mutex_lock(&s->bus->lock);
    struct letter **at = arrived_locked(s), *m = *at;
    if (m) {
        *at = m->next;
        if (!m->next)
            s->last = at;
        uint64_t count;
        if (--s->n_letter == 0 && read(s->fd, &count, sizeof count) < 0)
            count = 0; /* nothing to clear */
    }
    pthread_mutex_unlock(&s->bus->lock);
    return m;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Time does not pass by itself: nobody waits. */
static bool is_virtual(struct memory_bus *b)
{
    pthread_mutex_lock(&b->lock);
    bool is = b->faults.clock != NULL;
    pthread_mutex_unlock(&b->lock);
    return is;
}

static int memory_take(struct bus_socket *base, int timeout_ms, struct bus_message *out,
                       struct err *e)
{
    struct memory_socket *s = (struct memory_socket *)base;
    if (is_virtual(s->bus))
        timeout_ms = 0;
    int64_t end = now_ms() + timeout_ms;
    struct letter *m;
    while (!(m = take(s))) {
        int64_t left = timeout_ms < 0 ? -1 : end - now_ms();
        if (timeout_ms >= 0 && left <= 0)
            return err_set(e, ERR_TIMEOUT, "bus %s: nothing came in %d ms", base->address,
                           timeout_ms);
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        poll(&p, 1, (int)left);
    }
    *out = (struct bus_message){.bytes = {m->bytes, m->n}, .owner = m, .release = free};
    if (base->kind == BUS_ROUTER)
        out->peer = str_from(m->sender);
    return ERR_OK;
}

static int memory_fd(struct bus_socket *base)
{
    return ((struct memory_socket *)base)->fd;
}

static uint32_t memory_poll(struct bus_socket *const *sockets, uint32_t n, int fd, int timeout_ms)
{
    struct pollfd item[BUS_MAX_POLL + 1];
    if (n && is_virtual(((struct memory_socket *)sockets[0])->bus))
        timeout_ms = 0;
    for (uint32_t i = 0; i < n; i++)
        item[i] = (struct pollfd){.fd = memory_fd(sockets[i]), .events = POLLIN};
    item[n] = (struct pollfd){.fd = fd, .events = POLLIN};
    uint32_t count = n + (fd >= 0);
    if (poll(item, count, timeout_ms) <= 0)
        return 0;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < count; i++)
        mask |= item[i].revents ? (uint32_t)1 << i : 0;
    return mask;
}

static bool name_is_taken_locked(const struct memory_bus *b, const struct memory_socket *s)
{
    for (const struct memory_socket *t = b->first; t; t = t->next) {
        for (uint32_t i = 0; t->is_bound && i < t->n_name; i++) {
            for (uint32_t j = 0; j < s->n_name; j++) {
                if (strcmp(t->name[i], s->name[j]) == 0)
                    return true;
            }
        }
    }
    return false;
}

static int memory_socket_open(struct bus_socket **out, struct bus *base,
                              const struct bus_options *o, struct err *e)
{
    struct memory_bus *b = (struct memory_bus *)base;
    struct memory_socket *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "bus: no memory for a socket");
    s->base = (struct bus_socket){.backend = base->backend, .kind = o->kind};
    s->bus = b;
    s->is_bound = o->bind;
    s->last = &s->first;
    s->high_water = o->high_water > 0 ? (uint32_t)o->high_water : BUS_DEFAULT_HIGH_WATER;
    const char *rest = o->address;
    while (s->n_name < MAX_NAMES && bus_next_address(&rest, s->name[s->n_name]))
        s->n_name++;
    memcpy(s->base.address, s->name[s->n_name - 1], sizeof s->base.address);
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&b->lock);
    if (o->identity && o->identity[0])
        snprintf(s->identity, sizeof s->identity, "%s", o->identity);
    else
        snprintf(s->identity, sizeof s->identity, "peer-%llu", (unsigned long long)++b->n_identity);
    bool is_taken = s->is_bound && name_is_taken_locked(b, s);
    if (!is_taken && s->fd >= 0) {
        s->next = b->first;
        b->first = s;
        *out = &s->base;
    }
    pthread_mutex_unlock(&b->lock);
    if (*out)
        return ERR_OK;
    int rc = is_taken ? err_set(e, ERR_IO, "bus: %s is already bound", s->base.address)
                      : err_set(e, ERR_IO, "bus: no eventfd left");
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    return rc;
}

static void memory_socket_close(struct bus_socket *base)
{
    struct memory_socket *s = (struct memory_socket *)base;
    pthread_mutex_lock(&s->bus->lock);
    struct memory_socket **at = &s->bus->first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&s->bus->lock);
    while (s->first) {
        struct letter *m = s->first;
        s->first = m->next;
        free(m);
    }
    close(s->fd);
    free(s);
}

static void memory_close(struct bus *base)
{
    struct memory_bus *b = (struct memory_bus *)base;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static const struct bus_backend BACKEND = {
    .close = memory_close,
    .socket_open = memory_socket_open,
    .socket_close = memory_socket_close,
    .send = memory_send,
    .take = memory_take,
    .fd = memory_fd,
    .poll = memory_poll,
};

void bus_memory_set_faults(struct bus *base, const struct bus_faults *f)
{
    struct memory_bus *b = (struct memory_bus *)base;
    if (base->backend != &BACKEND)
        return;
    pthread_mutex_lock(&b->lock);
    b->faults = *f;
    rng_seed(&b->rng, f->seed);
    pthread_mutex_unlock(&b->lock);
}

int bus_open_memory(struct bus **out, struct err *e)
{
    *out = NULL;
    struct memory_bus *b = calloc(1, sizeof *b);
    if (!b)
        return err_set(e, ERR_NOMEM, "bus: no memory");
    b->base.backend = &BACKEND;
    pthread_mutex_init(&b->lock, NULL);
    *out = &b->base;
    return ERR_OK;
}
