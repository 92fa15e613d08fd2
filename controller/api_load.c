/* What the last outputs say about speed: percentiles and a course over time.
 *
 * From committed outputs, so at most LOAD_ROWS of them and at most an hour; durations are the
 * engine's own (schemas/output.h). HTTP loop thread. */
#include "controller/api_read.h"

#include "common/json.h"

#include <stdlib.h>

enum { LOAD_ROWS = 2000, LOAD_SLICES = 40, LOAD_WINDOW_S = 3600, MEASURES = 3 };

struct load_row {
    int64_t end_us;
    double ms[MEASURES]; /* queue, first token, whole */
    int64_t tokens;
};

struct load {
    struct load_row *row; /* oldest first */
    double *sorted;       /* room for one measure of every row */
    size_t n;
    int64_t prompt, cached;
};

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank: the smallest value that a share of `share` does not exceed. */
static json_t *percentile(const double *sorted, size_t n, double share)
{
    size_t rank = (size_t)(share * (double)n);
    if ((double)rank < share * (double)n)
        rank++;
    return n ? json_num(sorted[rank ? rank - 1 : 0]) : json_null();
}

static void sort_measure(const struct load *x, size_t from, size_t n, int measure)
{
    for (size_t i = 0; i < n; i++)
        x->sorted[i] = x->row[from + i].ms[measure];
    qsort(x->sorted, n, sizeof *x->sorted, by_value);
}

static json_t *measure_json(const struct load *x, int measure)
{
    json_t *o = json_object();
    sort_measure(x, 0, x->n, measure);
    put(o, "p50", percentile(x->sorted, x->n, 0.5));
    put(o, "p90", percentile(x->sorted, x->n, 0.9));
    put(o, "p99", percentile(x->sorted, x->n, 0.99));
    return o;
}

static json_t *slice_json(const struct load *x, size_t from, size_t n, int64_t end_us,
                          double seconds)
{
    json_t *o = json_object();
    int64_t tokens = 0;
    for (size_t i = from; i < from + n; i++)
        tokens += x->row[i].tokens;
    sort_measure(x, from, n, MEASURES - 1);
    put(o, "at_us", json_integer(end_us));
    put(o, "outputs_per_second", json_num((double)n / seconds));
    put(o, "tokens_per_second", json_num((double)tokens / seconds));
    put(o, "e2e_p50_ms", percentile(x->sorted, n, 0.5));
    put(o, "e2e_p99_ms", percentile(x->sorted, n, 0.99));
    return o;
}

/* Equal spans of time from the first row until now; an idle end shows as zeros. */
static json_t *slices_json(const struct load *x, int64_t now_us)
{
    json_t *list = json_array();
    if (x->n == 0)
        return list;
    double step = (double)(now_us - x->row[0].end_us) / LOAD_SLICES;
    size_t from = 0;
    for (int i = 1; i <= LOAD_SLICES && step > 0; i++) {
        int64_t end = i == LOAD_SLICES ? now_us : x->row[0].end_us + (int64_t)(step * i);
        size_t n = 0;
        while (from + n < x->n && x->row[from + n].end_us <= end)
            n++;
        json_array_append_new(list, slice_json(x, from, n, end, step * 1e-6));
        from += n;
    }
    return list;
}

static void add_row(struct load *x, struct db_stmt *q, int64_t now_us)
{
    int64_t created = db_col_i64(q, 0), queue = db_col_i64(q, 1), ttft = db_col_i64(q, 2);
    int64_t whole = ttft + db_col_i64(q, 3);
    int64_t end = created + whole < now_us ? created + whole : now_us;
    if (end < now_us - (int64_t)LOAD_WINDOW_S * 1000000)
        return;
    x->row[x->n++] =
        (struct load_row){.end_us = end,
                          .ms = {(double)queue * 1e-3, (double)ttft * 1e-3, (double)whole * 1e-3},
                          .tokens = db_col_i64(q, 4)};
    x->prompt += db_col_i64(q, 5);
    x->cached += db_col_i64(q, 6);
}

static int by_end(const void *a, const void *b)
{
    int64_t x = ((const struct load_row *)a)->end_us, y = ((const struct load_row *)b)->end_us;
    return (x > y) - (x < y);
}

static int read_rows(struct store *s, struct str route, int64_t now_us, struct load *x,
                     struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "SELECT "
        "created_us,queue_us,ttft_us,decode_us,completion_tokens,prompt_tokens,cached_tokens "
        "FROM route_rows WHERE route=? AND is_counted ORDER BY row DESC LIMIT ?",
        &q, e);
    if (rc == ERR_OK) {
        db_bind_str(q, 1, route);
        db_bind_i64(q, 2, LOAD_ROWS);
    }
    while (rc == ERR_OK && (rc = db_step(q, e)) == ERR_OK)
        add_row(x, q, now_us);
    if (rc != ERR_NOT_FOUND)
        return rc;
    qsort(x->row, x->n, sizeof *x->row, by_end);
    return ERR_OK;
}

static json_t *load_json(const struct load *x, int64_t now_us)
{
    json_t *o = json_object();
    put(o, "n", json_integer((json_int_t)x->n));
    put(o, "now_us", json_integer(now_us));
    put(o, "queue_ms", measure_json(x, 0));
    put(o, "ttft_ms", measure_json(x, 1));
    put(o, "e2e_ms", measure_json(x, 2));
    put(o, "prefix_hit_ratio",
        x->prompt ? json_num((double)x->cached / (double)x->prompt) : json_null());
    put(o, "slices", slices_json(x, now_us));
    return o;
}

int api_read_load(struct store *s, struct str route, int64_t now_us, json_t **out, struct err *e)
{
    struct load x = {.row = calloc(LOAD_ROWS, sizeof *x.row),
                     .sorted = calloc(LOAD_ROWS, sizeof *x.sorted)};
    int rc = x.row && x.sorted ? read_rows(s, route, now_us, &x, e)
                               : err_set(e, ERR_NOMEM, "no memory for an answer");
    *out = rc == ERR_OK ? load_json(&x, now_us) : NULL;
    free(x.row);
    free(x.sorted);
    return rc;
}
