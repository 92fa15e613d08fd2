/* The walk over scored rows, in the order in which the laws were fed. Writer thread, or a reader
 * with a store of its own. */
#include "controller/store/outputs.h"

#include "common/hash.h"
#include "common/json.h"

#include <string.h>

#define ROW_COLUMNS                                                                                \
    "SELECT s.row,s.committed_us,o.engine,o.epoch,o.admission,o.route,o.experiment,o.stratum,"     \
    "o.finish_reason,o.choice,o.revision,o.propensity,s.reward,o.is_invalid,o.prompt_tokens,"      \
    "o.completion_tokens,o.arm,s.version,o.raw_hash,s.checks,s.verifier,s.check_set,"              \
    "CASE WHEN length(o.raw_hash)=0 THEN (SELECT packed FROM bodies WHERE output=o.id) END,"       \
    "s.reward_b,o.request_id,o.unit,o.ttft_us+o.decode_us "                                        \
    "FROM scores s JOIN outputs o ON o.id=s.output WHERE s.is_counted=1 AND "

/* Rows of an earlier version have no hash of the text, but always the text itself. */
static int read_hashes(struct db_stmt *q, struct unpacker *unpacker, struct scored_row *row,
                       struct err *e)
{
    struct str hash = db_col_blob(q, 18), text;
    int rc = ERR_OK;
    sha256(db_col_str(q, 19), row->checks_hash);
    if (hash.n == sizeof row->raw_hash) {
        memcpy(row->raw_hash, hash.p, sizeof row->raw_hash);
        return ERR_OK;
    }
    rc = unpacker_read(unpacker, q, 22, &text, e);
    if (rc == ERR_OK)
        sha256(text, row->raw_hash);
    return rc;
}

/* Did a check of this kind fail? The text is ours and escaped: a kind in quotes is in most rows not
 * there at all, and they need no parser. */
static bool has_failed(struct str checks, struct str quoted)
{
    json_t *list = NULL;
    bool is_failed = false;
    struct str kind = str_slice(quoted, 1, quoted.n - 1);
    if (str_find(checks, quoted, 0) < 0 ||
        json_parse(checks, JSON_ANY_VALUE, &list, NULL) != ERR_OK)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *check = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(check, "kind"));
        const char *outcome = json_string_value(json_object_get(check, "outcome"));
        is_failed |= name && outcome && str_eq_c(kind, name) && strcmp(outcome, "fail") == 0;
    }
    json_decref(list);
    return is_failed;
}

static int read_row(struct db_stmt *q, struct unpacker *unpacker, struct scored_row *out,
                    struct err *e)
{
    bool is_scored = !db_col_is_null(q, 12), is_scored_b = !db_col_is_null(q, 23);
    *out =
        (struct scored_row){.row = (uint64_t)db_col_i64(q, 0),
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
                            .is_scored_b = is_scored_b,
                            .reward_b = is_scored_b ? db_col_f64(q, 23) : 0.0,
                            .is_invalid = db_col_i64(q, 13) != 0,
                            .is_refusal = has_failed(db_col_str(q, 19), STR("\"refusal\"")),
                            .is_repetitive = has_failed(db_col_str(q, 19), STR("\"repetition\"")),
                            .request_id = db_col_str(q, 24),
                            .unit = db_col_str(q, 25),
                            .latency_us = (uint64_t)db_col_i64(q, 26),
                            .prompt_tokens = (uint32_t)db_col_i64(q, 14),
                            .completion_tokens = (uint32_t)db_col_i64(q, 15),
                            .arm = db_col_str(q, 16),
                            .version = db_col_str(q, 17),
                            .verifier = db_col_str(q, 20),
                            .check_set = db_col_str(q, 21)};
    return read_hashes(q, unpacker, out, e);
}

static int walk(struct db_stmt *q, scored_row_fn *fn, void *ctx, struct err *e)
{
    struct unpacker *unpacker = unpacker_new();
    if (!unpacker)
        return err_set(e, ERR_NOMEM, "no memory to read rows");
    int rc;
    while ((rc = db_step(q, e)) == ERR_OK) {
        struct scored_row row;
        rc = read_row(q, unpacker, &row, e);
        if (rc == ERR_OK)
            rc = fn(&row, ctx, e);
        if (rc != ERR_OK) {
            db_reset(q);
            break;
        }
    }
    unpacker_free(unpacker);
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
