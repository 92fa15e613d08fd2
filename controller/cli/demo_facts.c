/* What the demonstration prints, read back from the controller's database with plain SQL.
 *
 * Everything is counted from committed rows: outputs joined with the score that the statistics
 * used (is_counted). The hot route's gain compares the rows before its first trial with the rows
 * after its last promotion, so that no row which a test stopped on is in it; the interval is
 * Welch's (https://doi.org/10.1093/biomet/34.1-2.28) with the normal quantile. */
#include "controller/cli/demo.h"

#include <math.h>
#include <string.h>

#define REWARDS                                                                                    \
    "SELECT count(s.reward), count(*) - count(s.reward), avg(s.reward), "                          \
    "(sum(s.reward * s.reward) - count(s.reward) * avg(s.reward) * avg(s.reward)) / "              \
    "nullif(count(s.reward) - 1, 0) FROM outputs o JOIN scores s ON s.output = o.id "              \
    "WHERE s.is_counted AND o.choice = 0 "

static const char SQL_BEFORE[] =
    REWARDS "AND o.route = 'default' AND o.revision = ?1 AND o.experiment = '' AND o.created_us < "
            "(SELECT started_us FROM experiments WHERE id = ?2)";
static const char SQL_DURING[] = REWARDS "AND o.revision = ?1 AND o.experiment = ?2";
static const char SQL_AFTER[] =
    REWARDS "AND o.route = 'default' AND o.revision = ?1 AND o.experiment = '' AND o.created_us > "
            "(SELECT max(at_us) FROM decisions WHERE experiment = ?2)";
static const char SQL_HOT_FIRST[] =
    REWARDS "AND o.route = 'hot' AND o.experiment = '' AND o.revision = "
            "(SELECT min(number) FROM revisions WHERE route = 'hot') AND o.created_us < "
            "(SELECT min(started_us) FROM experiments WHERE route = 'hot')";
static const char SQL_HOT_LAST[] = REWARDS
    "AND o.route = 'hot' AND o.created_us > "
    "(SELECT max(at_us) FROM decisions WHERE route = 'hot' AND action = 'promote') AND "
    "o.revision = (SELECT to_revision FROM decisions WHERE route = 'hot' AND action = 'promote' "
    "ORDER BY number DESC LIMIT 1)";

static double real_or_nan(struct db_stmt *s, int column)
{
    return db_col_is_null(s, column) ? (double)NAN : db_col_f64(s, column);
}

static int read_rewards(struct db *db, const char *sql, uint64_t revision, const char *experiment,
                        struct demo_rewards *out, struct err *e)
{
    struct db_stmt *s;
    int rc = db_prepare(db, &s, sql, e);

    if (rc != ERR_OK)
        return rc;
    if (strstr(sql, "?1") != NULL) {
        db_bind_i64(s, 1, (int64_t)revision);
        db_bind_str(s, 2, str_from(experiment));
    }
    rc = db_step(s, e);
    if (rc == ERR_OK)
        *out = (struct demo_rewards){.n = (uint64_t)db_col_i64(s, 0),
                                     .n_unscored = (uint64_t)db_col_i64(s, 1),
                                     .mean = real_or_nan(s, 2),
                                     .variance = real_or_nan(s, 3)};
    db_reset(s);
    return rc;
}

static int count(struct db *db, const char *sql, const char *text, int64_t number, uint64_t *out,
                 struct err *e)
{
    struct db_stmt *s;
    int rc = db_prepare(db, &s, sql, e);

    if (rc != ERR_OK)
        return rc;
    if (text != NULL) {
        db_bind_str(s, 1, str_from(text));
        db_bind_i64(s, 2, number);
    }
    rc = db_step(s, e);
    if (rc == ERR_OK)
        *out = (uint64_t)db_col_i64(s, 0);
    db_reset(s);
    return rc;
}

int demo_db_open(struct demo_db *d, const char *path, struct err *e)
{
    int rc;

    *d = (struct demo_db){.db = NULL};
    TRY(db_open_readonly(&d->db, path, e));
    TRY(db_prepare(d->db, &d->scores, "SELECT count(*) FROM scores WHERE route = ?1", e));
    TRY(db_prepare(d->db, &d->decisions,
                   "SELECT count(*) FROM decisions WHERE route = ?1 AND action = ?2", e));
out:
    return rc;
}

/* 0 as well when the database is busy: the phases ask again. */
static uint64_t first_number(struct db_stmt *s)
{
    uint64_t n = db_step(s, NULL) == ERR_OK ? (uint64_t)db_col_i64(s, 0) : 0;

    db_reset(s);
    return n;
}

uint64_t demo_count_scores(struct demo_db *d, const char *route)
{
    db_bind_str(d->scores, 1, str_from(route));
    return first_number(d->scores);
}

uint64_t demo_count_decisions(struct demo_db *d, const char *route, const char *action)
{
    db_bind_str(d->decisions, 1, str_from(route));
    db_bind_str(d->decisions, 2, str_from(action));
    return first_number(d->decisions);
}

static const char SQL_ROLLBACK[] =
    "SELECT d.number, d.experiment, d.from_revision, d.to_revision, d.log_e, d.log_threshold, "
    "json_extract(d.json, '$.effect'), (d.at_us - x.started_us) / 1e6, d.at_us, "
    "(SELECT count(*) FROM quarantine q WHERE q.route = d.route AND q.revision = d.from_revision) "
    "FROM decisions d JOIN experiments x ON x.id = d.experiment "
    "WHERE d.route = 'default' AND d.action = 'rollback' ORDER BY d.number LIMIT 1";

static int read_rollback(struct db *db, struct demo_facts *f, struct err *e)
{
    struct db_stmt *s;
    int rc = db_prepare(db, &s, SQL_ROLLBACK, e);

    if (rc != ERR_OK)
        return rc;
    rc = db_step(s, e);
    if (rc != ERR_OK)
        return err_set(e, ERR_NOT_FOUND, "the database holds no rollback of route default");
    f->rollback_decision = (uint64_t)db_col_i64(s, 0);
    snprintf(f->experiment, sizeof f->experiment, STR_FMT, STR_ARG(db_col_str(s, 1)));
    f->bad_revision = (uint64_t)db_col_i64(s, 2);
    f->champion = (uint64_t)db_col_i64(s, 3);
    f->log_e = real_or_nan(s, 4);
    f->log_threshold = real_or_nan(s, 5);
    f->effect = real_or_nan(s, 6);
    f->seconds_until_rollback = real_or_nan(s, 7);
    int64_t at_us = db_col_i64(s, 8);
    f->is_quarantined = db_col_i64(s, 9) > 0;
    db_reset(s);
    return count(db, "SELECT count(*) FROM outputs WHERE experiment = ?1 AND created_us <= ?2",
                 f->experiment, at_us, &f->requests_until_rollback, e);
}

static const char SQL_STEPS[] =
    "SELECT d.number, d.from_revision, d.to_revision, d.log_e, d.log_threshold, "
    "json_extract(d.json, '$.n_champion'), json_extract(d.json, '$.n_challenger'), "
    "json_extract(d.json, '$.mean_champion'), json_extract(d.json, '$.mean_challenger'), "
    "json_extract(a.json, '$.params.temperature'), json_extract(b.json, '$.params.temperature') "
    "FROM decisions d JOIN revisions a ON a.number = d.from_revision "
    "JOIN revisions b ON b.number = d.to_revision "
    "WHERE d.route = 'hot' AND d.action = 'promote' ORDER BY d.number";

static int read_steps(struct db *db, struct demo_facts *f, struct err *e)
{
    struct db_stmt *s;
    int rc = db_prepare(db, &s, SQL_STEPS, e);

    if (rc != ERR_OK)
        return rc;
    while (f->n_step < DEMO_MAX_STEPS && db_step(s, e) == ERR_OK) {
        f->step[f->n_step++] = (struct demo_step){.decision = (uint64_t)db_col_i64(s, 0),
                                                  .from_revision = (uint64_t)db_col_i64(s, 1),
                                                  .to_revision = (uint64_t)db_col_i64(s, 2),
                                                  .log_e = real_or_nan(s, 3),
                                                  .log_threshold = real_or_nan(s, 4),
                                                  .n_champion = (uint64_t)db_col_i64(s, 5),
                                                  .n_challenger = (uint64_t)db_col_i64(s, 6),
                                                  .mean_champion = real_or_nan(s, 7),
                                                  .mean_challenger = real_or_nan(s, 8),
                                                  .from_temperature = real_or_nan(s, 9),
                                                  .to_temperature = real_or_nan(s, 10)};
    }
    db_reset(s);
    return ERR_OK;
}

static void compute_gain(struct demo_facts *f)
{
    const struct demo_rewards *a = &f->hot_first, *b = &f->hot_last;

    f->gain = b->mean - a->mean;
    f->gain_half_width = 1.96 * sqrt(a->variance / (double)a->n + b->variance / (double)b->n);
}

int demo_facts_read(struct db *db, struct demo_facts *f, struct err *e)
{
    int rc;

    *f = (struct demo_facts){.n_step = 0};
    TRY(read_rollback(db, f, e));
    TRY(read_rewards(db, SQL_BEFORE, f->champion, f->experiment, &f->before, e));
    TRY(read_rewards(db, SQL_DURING, f->bad_revision, f->experiment, &f->during, e));
    TRY(read_rewards(db, SQL_DURING, f->champion, f->experiment, &f->control, e));
    TRY(read_rewards(db, SQL_AFTER, f->champion, f->experiment, &f->after, e));
    TRY(read_steps(db, f, e));
    TRY(read_rewards(db, SQL_HOT_FIRST, 0, "", &f->hot_first, e));
    TRY(read_rewards(db, SQL_HOT_LAST, 0, "", &f->hot_last, e));
    compute_gain(f);
    TRY(count(db, "SELECT count(*) FROM outputs", NULL, 0, &f->n_outputs, e));
    TRY(count(db, "SELECT count(*) FROM scores", NULL, 0, &f->n_scores, e));
    TRY(count(db, "SELECT count(*) FROM decisions", NULL, 0, &f->n_decisions, e));
out:
    return rc;
}
