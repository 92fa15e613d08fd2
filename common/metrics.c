/* Registry is append-only under one lock; children never move, so holders need no lock. Doubles
 * are updated by compare-and-swap on their bits. */
#include "common/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const double METRIC_SECONDS[METRIC_SECONDS_N] = {.001, .002, .005, .01, .02, .05, .1, .2, .3,
                                                 .5,   1,    2,    5,   10,  20,  30, 60, 120};
const double METRIC_UNIT[METRIC_UNIT_N] = {0,   .05, .1,  .15, .2,  .25, .3,  .35, .4,  .45, .5,
                                           .55, .6,  .65, .7,  .75, .8,  .85, .9,  .95, 1};
const double METRIC_TOKENS[METRIC_TOKENS_N] = {1,   2,   5,   10,   20,   50,
                                               100, 200, 500, 1000, 2000, 5000};

struct metric {
    struct metric *next;
    const struct metric_desc *desc;
    char *label_text; /* name="value",... already escaped; NULL without labels */
    _Atomic uint64_t value_bits;
    _Atomic uint64_t count;
    _Atomic uint64_t *buckets; /* [n_buckets], not cumulative */
};

struct metric_family {
    struct metric_family *next;
    const struct metric_desc *desc;
    struct metrics *registry;
    struct metric *first, *last;
    size_t n_children;
};

struct metrics {
    pthread_mutex_t lock;
    struct metric_family *first, *last;
};

static void *must_alloc(size_t n)
{
    void *p = calloc(1, n);
    if (!p)
        abort();
    return p;
}

struct metrics *metrics_new(void)
{
    struct metrics *m = must_alloc(sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void family_free(struct metric_family *f)
{
    for (struct metric *c = f->first, *next; c; c = next) {
        next = c->next;
        free(c->label_text);
        free(c->buckets);
        free(c);
    }
    free(f);
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (struct metric_family *f = m->first, *next; f; f = next) {
        next = f->next;
        family_free(f);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

struct metric_family *metrics_add(struct metrics *m, const struct metric_desc *desc)
{
    struct metric_family *f = must_alloc(sizeof *f);
    f->desc = desc;
    f->registry = m;
    pthread_mutex_lock(&m->lock);
    if (m->last)
        m->last->next = f;
    else
        m->first = f;
    m->last = f;
    pthread_mutex_unlock(&m->lock);
    return f;
}

static char *label_text(const struct metric_desc *d, const char *const *values)
{
    struct buf b;
    buf_init(&b, 64 * KiB);
    for (int i = 0; i < METRIC_MAX_LABELS && d->labels[i]; i++) {
        buf_printf(&b, "%s%s=\"", i ? "," : "", d->labels[i]);
        for (const char *v = values ? values[i] : ""; *v; v++) {
            if (*v == '"' || *v == '\\')
                buf_put_char(&b, '\\');
            buf_put_c(&b, *v == '\n' ? "\\n" : (char[2]){*v, '\0'});
        }
        buf_put_char(&b, '"');
    }
    char *text = b.failed ? NULL : str_dup_c(buf_str(&b));
    buf_free(&b);
    if (!text)
        abort();
    return text;
}

static bool skip(const char **at, const char *what)
{
    size_t n = strlen(what);
    bool is_there = strncmp(*at, what, n) == 0;
    *at += is_there ? n : 0;
    return is_there;
}

/* One value as label_text escapes it. */
static bool skip_value(const char **at, const char *v)
{
    for (; *v; v++) {
        bool is_escaped = *v == '"' || *v == '\\' || *v == '\n';
        if ((is_escaped && *(*at)++ != '\\') || *(*at)++ != (*v == '\n' ? 'n' : *v))
            return false;
    }
    return skip(at, "\"");
}

/* Is `text` what label_text makes of these values? */
static bool is_text_of(const char *text, const struct metric_desc *d, const char *const *values)
{
    for (int i = 0; i < METRIC_MAX_LABELS && d->labels[i]; i++) {
        if ((i && !skip(&text, ",")) || !skip(&text, d->labels[i]) || !skip(&text, "=\""))
            return false;
        if (!skip_value(&text, values ? values[i] : ""))
            return false;
    }
    return !*text;
}

static struct metric *find_locked(struct metric_family *f, const char *const *values)
{
    for (struct metric *c = f->first; c; c = c->next)
        if (is_text_of(c->label_text, f->desc, values))
            return c;
    return NULL;
}

static struct metric *add_child_locked(struct metric_family *f, char *text)
{
    struct metric *c = must_alloc(sizeof *c);
    c->desc = f->desc;
    c->label_text = text;
    if (f->desc->n_buckets)
        c->buckets = must_alloc(f->desc->n_buckets * sizeof *c->buckets);
    if (f->last)
        f->last->next = c;
    else
        f->first = c;
    f->last = c;
    f->n_children++;
    return c;
}

struct metric *metric_child(struct metric_family *f, const char *const *values)
{
    static const char *const OTHER[METRIC_MAX_LABELS] = {"other", "other", "other", "other"};
    pthread_mutex_lock(&f->registry->lock);
    struct metric *c = find_locked(f, values);
    if (!c && f->n_children >= METRIC_MAX_CHILDREN) {
        values = OTHER;
        c = find_locked(f, values);
    }
    if (!c)
        c = add_child_locked(f, label_text(f->desc, values));
    pthread_mutex_unlock(&f->registry->lock);
    return c;
}

struct metric *metrics_add_one(struct metrics *m, const struct metric_desc *desc)
{
    return metric_child(metrics_add(m, desc), NULL);
}

static double bits_to_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t double_to_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void metric_add(struct metric *c, double v)
{
    uint64_t old = atomic_load_explicit(&c->value_bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&c->value_bits, &old,
                                                  double_to_bits(bits_to_double(old) + v),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void metric_inc(struct metric *c)
{
    metric_add(c, 1);
}

void metric_set(struct metric *c, double v)
{
    atomic_store_explicit(&c->value_bits, double_to_bits(v), memory_order_relaxed);
}

void metric_observe(struct metric *c, double v)
{
    size_t i = 0;
    while (i < c->desc->n_buckets && v > c->desc->buckets[i])
        i++;
    if (i < c->desc->n_buckets)
        atomic_fetch_add_explicit(&c->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
    metric_add(c, v);
}

double metric_value(const struct metric *c)
{
    if (c->desc->type == METRIC_HISTOGRAM)
        return (double)atomic_load_explicit(&c->count, memory_order_relaxed);
    return bits_to_double(atomic_load_explicit(&c->value_bits, memory_order_relaxed));
}

static void render_number(struct buf *out, double v)
{
    if (isinf(v))
        buf_put_c(out, v > 0 ? "+Inf" : "-Inf");
    else if (isnan(v))
        buf_put_c(out, "NaN");
    else
        buf_printf(out, "%.17g", v);
    buf_put_char(out, '\n');
}

static void render_histogram(const struct metric *c, struct buf *out)
{
    const struct metric_desc *d = c->desc;
    const char *comma = *c->label_text ? "," : "";
    uint64_t total = atomic_load_explicit(&c->count, memory_order_relaxed), below = 0;
    for (size_t i = 0; i < d->n_buckets; i++) {
        below += atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", d->name, c->label_text, comma,
                   d->buckets[i], (unsigned long long)below);
    }
    if (total < below)
        total = below;
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", d->name, c->label_text, comma,
               (unsigned long long)total);
    const char *open = *c->label_text ? "{" : "", *close = *c->label_text ? "}" : "";
    buf_printf(out, "%s_sum%s%s%s ", d->name, open, c->label_text, close);
    render_number(out, bits_to_double(atomic_load_explicit(&c->value_bits, memory_order_relaxed)));
    buf_printf(out, "%s_count%s%s%s %llu\n", d->name, open, c->label_text, close,
               (unsigned long long)total);
}

static void render_child(const struct metric *c, struct buf *out)
{
    if (c->desc->type == METRIC_HISTOGRAM) {
        render_histogram(c, out);
        return;
    }
    bool labelled = *c->label_text;
    buf_printf(out, "%s%s%s%s ", c->desc->name, labelled ? "{" : "", c->label_text,
               labelled ? "}" : "");
    render_number(out, metric_value(c));
}

void metrics_render(struct metrics *m, struct buf *out)
{
    static const char *const TYPE_NAMES[] = {"counter", "gauge", "histogram"};
    pthread_mutex_lock(&m->lock);
    for (struct metric_family *f = m->first; f; f = f->next) {
        const struct metric_desc *d = f->desc;
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", d->name, d->help, d->name,
                   TYPE_NAMES[d->type]);
        for (struct metric *c = f->first; c; c = c->next)
            render_child(c, out);
    }
    pthread_mutex_unlock(&m->lock);
}
