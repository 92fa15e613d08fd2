/* Inserts of what came from the verifiers.
 *
 * Why insert-or-ignore comes before the statistic: the same record counted twice raises false
 * rollbacks from 2.9% to 25.8% (CONTROL.md 2.8). Writer thread; score_seal on any. */
#include "controller/store/outputs.h"

#include "common/hash.h"

#include <math.h>
#include <string.h>

static bool is_invalid(const struct output *o)
{
    return o->completion_tokens == 0 || str_trim(o->text).n == 0;
}

static struct str text_or_empty(struct str s)
{
    return s.p ? s : STR("");
}

/* Sealing. */

static void put_text(struct buf *b, const char *key, struct str text)
{
    buf_put_char(b, '"');
    buf_put_c(b, key);
    buf_put_c(b, "\":\"");
    buf_put_json(b, text);
    buf_put_c(b, "\",");
}

static void put_check(struct buf *b, const struct check_result *c)
{
    buf_put_char(b, '{');
    put_text(b, "id", c->id);
    put_text(b, "kind", c->kind);
    put_text(b, "outcome", str_from(score_outcome_name(c->outcome)));
    put_text(b, "reason", c->reason);
    buf_put_c(b, "\"value\":");
    if (c->outcome == SCORE_UNSCORED)
        buf_put_c(b, "null");
    else
        buf_put_real(b, c->value);
    buf_put_c(b, ",\"weight\":");
    buf_put_real(b, c->weight);
    buf_put_c(b, ",\"is_gate\":");
    buf_put_c(b, c->is_gate ? "true" : "false");
    if (c->is_b)
        buf_put_c(b, ",\"set_b\":true");
    buf_put_c(b, ",\"duration_us\":");
    buf_put_u64(b, c->duration_us);
    buf_put_char(b, '}');
}

static int checks_text(const struct score *sc, struct buf *out, struct err *e)
{
    buf_put_char(out, '[');
    for (uint32_t i = 0; i < sc->n_check; i++) {
        if (i)
            buf_put_char(out, ',');
        put_check(out, &sc->check[i]);
    }
    buf_put_char(out, ']');
    return buf_check(out, "checks", e);
}

int score_seal(const struct score *sc, const struct output *o, struct packer *p, enum packing when,
               struct arena *a, struct sealed_score *out, struct err *e)
{
    struct buf text;
    *out = (struct sealed_score){.score = sc, .output = o, .packer = p, .arena = a};
    buf_init(&text, MiB);
    int rc = checks_text(sc, &text, e);
    if (rc == ERR_OK) {
        out->checks = arena_str(a, buf_str(&text));
        if (!out->checks.p)
            rc = err_set(e, ERR_NOMEM, "no memory for the checks of a score");
    }
    buf_free(&text);
    if (rc != ERR_OK)
        return rc;
    sha256(sc->output_json, out->raw_hash);
    sha256(out->checks, out->checks_hash);
    return when == PACK_NOW ? packer_pack(p, sc->output_json, a, &out->body, e) : ERR_OK;
}

static bool has_failed(const struct score *sc, const char *kind)
{
    for (uint32_t i = 0; i < sc->n_check; i++)
        if (sc->check[i].outcome == SCORE_FAIL && str_eq_c(sc->check[i].kind, kind))
            return true;
    return false;
}

/* As stored: SQLite knows no negative zero. */
void store_row_of(const struct sealed_score *x, const struct put_result *put, int64_t now_us,
                  struct scored_row *out)
{
    const struct score *sc = x->score;
    const struct output *o = x->output;
    *out = (struct scored_row){.row = put->row,
                               .committed_us = now_us,
                               .engine = o->engine,
                               .epoch = o->epoch,
                               .admission = o->admission,
                               .route = o->route,
                               .experiment = text_or_empty(o->experiment),
                               .stratum = text_or_empty(o->stratum),
                               .finish_reason = o->finish_reason,
                               .choice = o->choice,
                               .revision = o->revision,
                               .propensity = o->propensity + 0.0,
                               .is_scored = sc->is_scored,
                               .reward = sc->is_scored ? sc->reward + 0.0 : 0.0,
                               .is_scored_b = sc->is_scored_b,
                               .reward_b = sc->is_scored_b ? sc->reward_b + 0.0 : 0.0,
                               .is_invalid = is_invalid(o),
                               .is_refusal = has_failed(sc, "refusal"),
                               .is_repetitive = has_failed(sc, "repetition"),
                               .request_id = o->request_id,
                               .unit = text_or_empty(o->unit),
                               .latency_us = o->ttft_us + o->decode_us,
                               .prompt_tokens = o->prompt_tokens,
                               .completion_tokens = o->completion_tokens,
                               .arm = o->arm,
                               .version = sc->version,
                               .verifier = sc->verifier,
                               .check_set = sc->check_set};
    memcpy(out->raw_hash, x->raw_hash, sizeof out->raw_hash);
    memcpy(out->checks_hash, x->checks_hash, sizeof out->checks_hash);
}

/* Inserting. */

static int insert_output(struct store *s, const struct output *o, const struct sealed_score *x,
                         int64_t *id, bool *is_new, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "INSERT OR IGNORE INTO outputs(engine,epoch,seq,request_id,choice,route,revision,arm,"
        "experiment,propensity,stratum,unit,admission,desired_version,finish_reason,is_invalid,"
        "prompt_tokens,cached_tokens,completion_tokens,queue_us,ttft_us,decode_us,created_us,"
        "raw_hash) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
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
    db_bind_blob(q, 24, (struct str){(const char *)x->raw_hash, sizeof x->raw_hash});
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    *is_new = changes == 1;
    *id = db_last_rowid(store_db(s)); /* of this output, when it is new */
    return rc;
}

static int insert_body(struct store *s, int64_t id, const struct sealed_score *x, struct err *e)
{
    struct db_stmt *q;
    struct packed body = x->body;
    int rc =
        body.bytes.p ? ERR_OK : packer_pack(x->packer, x->score->output_json, x->arena, &body, e);
    if (rc == ERR_OK)
        rc = store_statement(s, "INSERT INTO bodies(output,packed) VALUES(?,?)", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, id);
    if (body.is_frame)
        db_bind_blob(q, 2, body.bytes);
    else
        db_bind_str(q, 2, text_or_empty(body.bytes));
    return db_run(q, NULL, e);
}

/* What is stored of an output: its scores are found by the request's id that came first. */
struct known_output {
    int64_t id;
    struct str request_id;
    uint32_t choice;
    bool has_score;
};

static int find_output(struct store *s, const struct output *o, struct arena *a,
                       struct known_output *out, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "SELECT id,request_id,choice,EXISTS(SELECT 1 FROM scores s WHERE "
                             "s.request_id=o.request_id AND s.choice=o.choice AND s.output=o.id) "
                             "FROM outputs o WHERE engine=? AND epoch=? AND seq=?",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, o->engine);
    db_bind_i64(q, 2, (int64_t)o->epoch);
    db_bind_i64(q, 3, (int64_t)o->seq);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *out = (struct known_output){.id = db_col_i64(q, 0),
                                 .request_id = arena_str(a, db_col_str(q, 1)),
                                 .choice = (uint32_t)db_col_i64(q, 2),
                                 .has_score = db_col_i64(q, 3) != 0};
    db_reset(q);
    return out->request_id.p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for an output's id");
}

static int insert_score(struct store *s, const struct sealed_score *x, const struct known_output *o,
                        int64_t now_us, struct put_result *out, struct err *e)
{
    const struct score *sc = x->score;
    struct db_stmt *q;
    uint64_t row;
    /* The place is taken from the counter only when the row is new. */
    int rc = store_last_ord(s, &row, e);
    if (rc == ERR_OK) {
        rc = store_statement(
            s,
            "INSERT OR IGNORE INTO scores(row,output,request_id,choice,check_set,version,verifier,"
            "route,is_counted,reward,reason,duration_us,committed_us,checks,reward_b) "
            "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            &q, e);
    }
    if (rc != ERR_OK)
        return rc;
    row++;
    db_bind_i64(q, 1, (int64_t)row);
    db_bind_i64(q, 2, o->id);
    db_bind_str(q, 3, o->request_id);
    db_bind_i64(q, 4, o->choice);
    db_bind_str(q, 5, text_or_empty(sc->check_set));
    db_bind_str(q, 6, text_or_empty(sc->version));
    db_bind_str(q, 7, text_or_empty(sc->verifier));
    db_bind_str(q, 8, x->output->route);
    db_bind_i64(q, 9, out->is_counted);
    if (sc->is_scored)
        db_bind_f64(q, 10, sc->reward);
    else
        db_bind_null(q, 10);
    db_bind_str(q, 11, text_or_empty(sc->reason));
    db_bind_i64(q, 12, (int64_t)sc->duration_us);
    db_bind_i64(q, 13, now_us);
    db_bind_str(q, 14, x->checks);
    if (sc->is_scored_b)
        db_bind_f64(q, 15, sc->reward_b);
    else
        db_bind_null(q, 15);
    int64_t changes = 0;
    rc = db_run(q, &changes, e);
    out->is_new_score = changes == 1;
    out->is_counted = out->is_counted && out->is_new_score;
    if (rc == ERR_OK && out->is_new_score)
        rc = store_next_ord(s, &out->row, e);
    return rc;
}

static int insert_route_row(struct store *s, const struct sealed_score *x, int64_t now_us,
                            const struct put_result *put, struct err *e)
{
    struct db_stmt *q;
    const struct output *o = x->output;
    int rc =
        store_statement(s, "INSERT INTO route_rows VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &q, e);
    if (rc != ERR_OK)
        return rc;
    const uint64_t numbers[] = {(uint64_t)now_us, o->revision,      (uint64_t)o->created_us,
                                o->queue_us,      o->ttft_us,       o->decode_us,
                                o->prompt_tokens, o->cached_tokens, o->completion_tokens,
                                put->row,         put->is_counted};
    static const int NUMBER_AT[] = {5, 6, 8, 9, 10, 11, 12, 13, 14, 2, 3};
    for (size_t i = 0; i < sizeof NUMBER_AT / sizeof *NUMBER_AT; i++)
        db_bind_i64(q, NUMBER_AT[i], (int64_t)numbers[i]);
    db_bind_str(q, 1, o->route);
    db_bind_f64(q, 4, x->score->is_scored ? x->score->reward : (double)NAN);
    db_bind_str(q, 7, o->arm);
    return db_run(q, NULL, e);
}

int store_put_score(struct store *s, const struct sealed_score *x, int64_t now_us,
                    struct put_result *out, struct err *e)
{
    *out = (struct put_result){0};
    struct known_output o = {.request_id = x->output->request_id, .choice = x->output->choice};
    int rc = insert_output(s, x->output, x, &o.id, &out->is_new_output, e);
    if (rc == ERR_OK)
        rc = out->is_new_output ? insert_body(s, o.id, x, e)
                                : find_output(s, x->output, x->arena, &o, e);
    out->is_counted = !o.has_score;
    if (rc == ERR_OK)
        rc = insert_score(s, x, &o, now_us, out, e);
    return rc == ERR_OK && out->is_new_score ? insert_route_row(s, x, now_us, out, e) : rc;
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
