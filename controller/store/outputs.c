/* Inserts of what came from the verifiers, and the walk that feeds the laws.
 *
 * Why insert-or-ignore comes before the statistic: the same record counted twice raises false
 * rollbacks from 2.9% to 25.8% (CONTROL.md 2.8). Writer thread; the walks also on readers. */
#include "controller/store/outputs.h"

#include "common/json.h"

static bool is_invalid(const struct output *o)
{
    return o->completion_tokens == 0 || str_trim(o->text).n == 0;
}

static struct str text_or_empty(struct str s)
{
    return s.p ? s : STR("");
}

static int insert_output(struct store *s, const struct output *o, struct str raw, bool *is_new,
                         struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "INSERT OR IGNORE INTO outputs(engine,epoch,seq,request_id,choice,route,revision,arm,"
        "experiment,propensity,stratum,unit,admission,desired_version,finish_reason,is_invalid,"
        "prompt_tokens,cached_tokens,completion_tokens,queue_us,ttft_us,decode_us,created_us,raw) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    const struct str texts[] = {o->engine,     o->request_id, o->route, o->arm,
                                o->experiment, o->stratum,    o->unit,  o->finish_reason};
    static const int TEXT_AT[] = {1, 4, 6, 8, 9, 11, 12, 15};
    const uint64_t numbers[] = {o->epoch,         o->seq,
                                o->choice,        o->revision,
                                o->admission,     o->desired_version,
                                is_invalid(o),    o->prompt_tokens,
                                o->cached_tokens, o->completion_tokens,
                                o->queue_us,      o->ttft_us,
                                o->decode_us,     (uint64_t)o->created_us};
    static const int NUMBER_AT[] = {2, 3, 5, 7, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23};
    for (size_t i = 0; i < sizeof TEXT_AT / sizeof *TEXT_AT; i++)
        db_bind_str(q, TEXT_AT[i], text_or_empty(texts[i]));
    for (size_t i = 0; i < sizeof NUMBER_AT / sizeof *NUMBER_AT; i++)
        db_bind_i64(q, NUMBER_AT[i], (int64_t)numbers[i]);
    db_bind_f64(q, 10, o->propensity);
    db_bind_str(q, 24, raw);
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    *is_new = changes == 1;
    return rc;
}

static int find_output(struct store *s, const struct output *o, int64_t *id, bool *has_score,
                       struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT id, EXISTS(SELECT 1 FROM scores WHERE output=id) FROM outputs "
                             "WHERE engine=? AND epoch=? AND seq=?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, o->engine);
    db_bind_i64(q, 2, (int64_t)o->epoch);
    db_bind_i64(q, 3, (int64_t)o->seq);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *id = db_col_i64(q, 0);
    *has_score = db_col_i64(q, 1) != 0;
    db_reset(q);
    return ERR_OK;
}

static json_t *check_json(const struct check_result *c)
{
    json_t *v = json_object();
    int bad = json_object_set_new(v, "id", json_str(c->id)) |
              json_object_set_new(v, "kind", json_str(c->kind)) |
              json_object_set_new(v, "outcome", json_string(score_outcome_name(c->outcome))) |
              json_object_set_new(v, "value",
                                  c->outcome == SCORE_UNSCORED ? json_null() : json_num(c->value)) |
              json_object_set_new(v, "weight", json_num(c->weight)) |
              json_object_set_new(v, "is_gate", json_boolean(c->is_gate)) |
              json_object_set_new(v, "duration_us", json_integer((json_int_t)c->duration_us)) |
              json_object_set_new(v, "reason", json_str(c->reason));
    if (bad) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static int checks_text(const struct score *sc, struct buf *out, struct err *e)
{
    json_t *list = json_array();
    int bad = list == NULL;
    for (uint32_t i = 0; i < sc->n_check && !bad; i++)
        bad = json_array_append_new(list, check_json(&sc->check[i]));
    int rc = bad ? err_set(e, ERR_NOMEM, "no memory for the checks of a score")
                 : json_write(list, out, e);
    json_decref(list);
    return rc;
}

static int insert_score(struct store *s, const struct score *sc, const struct output *o,
                        int64_t output, struct str checks, int64_t now_us, struct put_result *out,
                        struct err *e)
{
    struct db_stmt *q;
    uint64_t row;
    /* The place is taken from the counter only when the row is new. */
    int rc = store_last_ord(s, &row, e);
    if (rc == ERR_OK) {
        rc = store_statement(
            s,
            "INSERT OR IGNORE INTO scores(row,output,request_id,choice,check_set,version,verifier,"
            "route,is_counted,reward,reason,duration_us,committed_us,checks) "
            "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            &q, e);
    }
    if (rc != ERR_OK)
        return rc;
    row++;
    db_bind_i64(q, 1, (int64_t)row);
    db_bind_i64(q, 2, output);
    db_bind_str(q, 3, o->request_id);
    db_bind_i64(q, 4, o->choice);
    db_bind_str(q, 5, text_or_empty(sc->check_set));
    db_bind_str(q, 6, text_or_empty(sc->version));
    db_bind_str(q, 7, text_or_empty(sc->verifier));
    db_bind_str(q, 8, o->route);
    db_bind_i64(q, 9, out->is_counted);
    if (sc->is_scored)
        db_bind_f64(q, 10, sc->reward);
    else
        db_bind_null(q, 10);
    db_bind_str(q, 11, text_or_empty(sc->reason));
    db_bind_i64(q, 12, (int64_t)sc->duration_us);
    db_bind_i64(q, 13, now_us);
    db_bind_str(q, 14, checks);
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    out->is_new_score = changes == 1;
    out->is_counted = out->is_counted && out->is_new_score;
    if (rc == ERR_OK && out->is_new_score)
        rc = store_next_ord(s, &out->row, e);
    return rc;
}

int store_put_score(struct store *s, const struct score *sc, const struct output *o, int64_t now_us,
                    struct put_result *out, struct err *e)
{
    *out = (struct put_result){0};
    int64_t id = 0;
    bool has_score = false;
    struct buf checks;
    buf_init(&checks, MiB);
    int rc;
    TRY(insert_output(s, o, sc->output_json, &out->is_new_output, e));
    TRY(find_output(s, o, &id, &has_score, e));
    out->is_counted = !has_score;
    TRY(checks_text(sc, &checks, e));
    TRY(insert_score(s, sc, o, id, buf_str(&checks), now_us, out, e));
out:
    buf_free(&checks);
    return rc;
}

int store_put_feedback(struct store *s, const struct feedback *f, int64_t now_us, bool *is_new,
                       struct err *e)
{
    struct db_stmt *q;
    *is_new = false;
    int rc = store_statement(s,
                             "INSERT OR IGNORE INTO feedback(engine,epoch,seq,request_id,value,"
                             "corrected,comment,created_us,committed_us) VALUES(?,?,?,?,?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, f->engine);
    db_bind_i64(q, 2, (int64_t)f->epoch);
    db_bind_i64(q, 3, (int64_t)f->seq);
    db_bind_str(q, 4, f->request_id);
    if (f->has_value)
        db_bind_f64(q, 5, f->value);
    else
        db_bind_null(q, 5);
    db_bind_str(q, 6, text_or_empty(f->corrected));
    db_bind_str(q, 7, text_or_empty(f->comment));
    db_bind_i64(q, 8, f->created_us);
    db_bind_i64(q, 9, now_us);
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    *is_new = changes == 1;
    return rc;
}

int store_put_reject(struct store *s, const struct output *key, struct str raw, const char *reason,
                     int64_t now_us, bool *is_new, struct err *e)
{
    struct db_stmt *q;
    *is_new = false;
    int rc = store_statement(s,
                             "INSERT OR IGNORE INTO rejects(engine,epoch,seq,reason,raw,"
                             "committed_us) VALUES(?,?,?,?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, key->engine);
    db_bind_i64(q, 2, (int64_t)key->epoch);
    db_bind_i64(q, 3, (int64_t)key->seq);
    db_bind_str(q, 4, str_from(reason));
    db_bind_str(q, 5, raw);
    db_bind_i64(q, 6, now_us);
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    *is_new = changes == 1;
    return rc;
}

#define ROW_COLUMNS                                                                                \
    "SELECT s.row,s.committed_us,o.engine,o.epoch,o.admission,o.route,o.experiment,o.stratum,"     \
    "o.finish_reason,o.choice,o.revision,o.propensity,s.reward,o.is_invalid,o.prompt_tokens,"      \
    "o.completion_tokens,o.arm,s.version,o.raw,s.checks,s.verifier,s.check_set FROM scores s "     \
    "JOIN outputs o ON "                                                                           \
    "o.id=s.output "                                                                               \
    "WHERE s.is_counted=1 AND "

static struct scored_row read_row(struct db_stmt *q)
{
    bool is_scored = !db_col_is_null(q, 12);
    return (struct scored_row){.row = (uint64_t)db_col_i64(q, 0),
                               .committed_us = db_col_i64(q, 1),
                               .engine = db_col_str(q, 2),
                               .epoch = (uint64_t)db_col_i64(q, 3),
                               .admission = (uint64_t)db_col_i64(q, 4),
                               .route = db_col_str(q, 5),
                               .experiment = db_col_str(q, 6),
                               .stratum = db_col_str(q, 7),
                               .finish_reason = db_col_str(q, 8),
                               .choice = (uint32_t)db_col_i64(q, 9),
                               .revision = (uint64_t)db_col_i64(q, 10),
                               .propensity = db_col_f64(q, 11),
                               .is_scored = is_scored,
                               .reward = is_scored ? db_col_f64(q, 12) : 0.0,
                               .is_invalid = db_col_i64(q, 13) != 0,
                               .prompt_tokens = (uint32_t)db_col_i64(q, 14),
                               .completion_tokens = (uint32_t)db_col_i64(q, 15),
                               .arm = db_col_str(q, 16),
                               .version = db_col_str(q, 17),
                               .raw = db_col_str(q, 18),
                               .checks = db_col_str(q, 19),
                               .verifier = db_col_str(q, 20),
                               .check_set = db_col_str(q, 21)};
}

static int walk(struct db_stmt *q, scored_row_fn *fn, void *ctx, struct err *e)
{
    int rc;
    while ((rc = db_step(q, e)) == ERR_OK) {
        struct scored_row row = read_row(q);
        rc = fn(&row, ctx, e);
        if (rc != ERR_OK) {
            db_reset(q);
            return rc;
        }
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

int store_walk_rows(struct store *s, uint64_t after, uint64_t up_to, scored_row_fn *fn, void *ctx,
                    struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, ROW_COLUMNS "s.row>? AND s.row<=? ORDER BY s.row", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)after);
    db_bind_i64(q, 2, up_to > INT64_MAX ? INT64_MAX : (int64_t)up_to);
    return walk(q, fn, ctx, e);
}

int store_walk_revision(struct store *s, struct str route, uint64_t revision, scored_row_fn *fn,
                        void *ctx, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, ROW_COLUMNS "o.route=? AND o.revision=? ORDER BY s.row", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, (int64_t)revision);
    return walk(q, fn, ctx, e);
}
