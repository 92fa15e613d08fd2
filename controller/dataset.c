/* A line is made of the record's own members, as text, between the store's columns: token ids and
 * log probabilities are the very digits that the engine wrote. Rows of the route's own order are
 * walked by key in one read snapshot. */
#include "controller/dataset.h"

#include "common/buf.h"
#include "common/io.h"
#include "common/json_members.h"
#include "controller/store/pack.h"

enum { FLUSH_BYTES = 256 * 1024, LINE_BYTES = 64 * 1024 * 1024, TELL_EVERY = 256 };

static const char *const PASSED_ON[] = {"messages",  "prompt",   "text",    "token_ids", "logprobs",
                                        "effective", "metadata", "weights", "model"};

struct writer {
    const struct dataset_query *query;
    struct dataset_report *report;
    struct buf out;
    int fd;
    uint64_t n_seen, total;
};

static bool is_passed_on(struct str key)
{
    for (size_t i = 0; i < sizeof PASSED_ON / sizeof *PASSED_ON; i++)
        if (str_eq_c(key, PASSED_ON[i]))
            return true;
    return false;
}

static bool put_members(struct buf *b, struct str raw)
{
    struct json_members all;
    struct json_member m;
    int rc = json_members_open(&all, raw, NULL);
    while (rc == ERR_OK && (rc = json_members_next(&all, &m, NULL)) == ERR_OK) {
        if (!is_passed_on(m.key))
            continue;
        buf_printf(b, ",\"" STR_FMT "\":", STR_ARG(m.key));
        buf_put_str(b, m.value);
    }
    return rc == ERR_NOT_FOUND;
}

static void put_columns(struct buf *b, struct db_stmt *q)
{
    static const struct {
        const char *key;
        bool is_text;
    } COLUMNS[] = {{"request_id", true},    {"engine", true},      {"epoch", false},
                   {"seq", false},          {"choice", false},     {"route", true},
                   {"revision", false},     {"arm", true},         {"experiment", true},
                   {"finish_reason", true}, {"created_us", false}, {"row", false},
                   {"version", true},       {"reason", true}};
    for (int i = 0; i < (int)(sizeof COLUMNS / sizeof *COLUMNS); i++) {
        buf_printf(b, "%s\"%s\":", i ? "," : "{", COLUMNS[i].key);
        if (!COLUMNS[i].is_text) {
            buf_put_i64(b, db_col_i64(q, i));
            continue;
        }
        buf_put_char(b, '"');
        buf_put_json(b, db_col_str(q, i));
        buf_put_char(b, '"');
    }
    buf_put_c(b, ",\"reward\":");
    if (db_col_is_null(q, 14))
        buf_put_c(b, "null");
    else
        buf_put_real(b, db_col_f64(q, 14));
    buf_put_c(b, ",\"checks\":");
    buf_put_str(b, db_col_str(q, 15));
}

static int flush(struct writer *w, struct err *e)
{
    int rc = buf_check(&w->out, "export", e);
    if (rc == ERR_OK)
        rc = io_write_all(w->fd, buf_str(&w->out), e);
    w->report->n_bytes += w->out.n;
    buf_reset(&w->out);
    return rc;
}

static void note_line(struct dataset_report *r, uint64_t row, uint64_t revision)
{
    if (r->n_rows++ == 0) {
        r->first_row = row;
        r->first_revision = revision;
    }
    r->last_row = row;
    r->first_revision = revision < r->first_revision ? revision : r->first_revision;
    r->last_revision = revision > r->last_revision ? revision : r->last_revision;
}

static int put_line(struct writer *w, struct db_stmt *q, struct unpacker *u, struct err *e)
{
    struct str raw = {0};
    struct err why;
    size_t before = w->out.n;
    put_columns(&w->out, q);
    if (unpacker_read(u, q, 16, &raw, &why) != ERR_OK || !raw.p || !put_members(&w->out, raw)) {
        w->out.n = before;
        w->report->n_without_text++;
        return ERR_OK;
    }
    buf_put_c(&w->out, "}\n");
    note_line(w->report, (uint64_t)db_col_i64(q, 11), (uint64_t)db_col_i64(q, 6));
    return w->out.n < FLUSH_BYTES && !w->out.failed ? ERR_OK : flush(w, e);
}

static int tell(struct writer *w, struct err *e)
{
    if (++w->n_seen % TELL_EVERY || !w->query->progress)
        return ERR_OK;
    return w->query->progress(w->query->ctx, w->n_seen, w->total)
               ? ERR_OK
               : err_set(e, ERR_CANCELLED, "the export was stopped");
}

#define RANGE                                                                                      \
    "FROM route_rows r WHERE r.route=?1 AND r.committed_us>=?2 AND r.committed_us<?3 AND "         \
    "r.is_counted AND (?4=0 OR r.reward IS NOT NULL)"

static void bind(struct db_stmt *s, const struct dataset_query *q)
{
    db_bind_str(s, 1, q->route);
    db_bind_i64(s, 2, q->since_us);
    db_bind_i64(s, 3, q->until_us ? q->until_us : INT64_MAX);
    db_bind_i64(s, 4, q->only_scored);
}

static int count(struct store *s, struct writer *w, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT count(*) " RANGE, &q, e);
    if (rc != ERR_OK)
        return rc;
    bind(q, w->query);
    rc = db_step(q, e);
    if (rc == ERR_OK)
        w->total = (uint64_t)db_col_i64(q, 0);
    db_reset(q);
    return rc;
}

static int write_lines(struct store *s, struct writer *w, struct unpacker *u, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "SELECT o.request_id,o.engine,o.epoch,o.seq,o.choice,o.route,o.revision,o.arm,"
        "o.experiment,o.finish_reason,o.created_us,s.row,s.version,s.reason,s.reward,s.checks,"
        "(SELECT packed FROM bodies WHERE output=o.id) FROM (SELECT r.row " RANGE ") x JOIN scores "
        "s ON s.row=x.row JOIN outputs o ON o.id=s.output ORDER BY x.row",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    bind(q, w->query);
    while ((rc = db_step(q, e)) == ERR_OK) {
        rc = put_line(w, q, u, e);
        if (rc == ERR_OK)
            rc = tell(w, e);
        if (rc != ERR_OK)
            break;
    }
    db_reset(q);
    return rc == ERR_NOT_FOUND ? flush(w, e) : rc;
}

int dataset_write(struct store *s, const struct dataset_query *q, int fd,
                  struct dataset_report *out, struct err *e)
{
    struct writer w = {.query = q, .report = out, .fd = fd};
    struct unpacker *u = unpacker_new();
    *out = (struct dataset_report){0};
    buf_init(&w.out, LINE_BYTES);
    int rc = u ? db_exec(store_db(s), "BEGIN", e) : err_set(e, ERR_NOMEM, "no memory to export");
    if (rc == ERR_OK)
        rc = count(s, &w, e);
    if (rc == ERR_OK)
        rc = write_lines(s, &w, u, e);
    db_rollback(store_db(s));
    unpacker_free(u);
    buf_free(&w.out);
    return rc;
}
