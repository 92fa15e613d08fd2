/* Upserts of the cells, by minute and hour, totals and tallies. A cell is found by comparing: a
 * batch touches a handful of them. */
#include "controller/store/rollups.h"

#include <string.h>

static void copy_text(char out[ROLLUP_TEXT], struct str s)
{
    size_t n = s.n < ROLLUP_TEXT ? s.n : ROLLUP_TEXT - 1;
    memcpy(out, s.p ? s.p : "", n);
    out[n] = '\0';
}

static struct rollup_cell *find(struct rollups *r, const struct scored_row *row, int64_t minute_us)
{
    struct str route = str_slice(row->route, 0, ROLLUP_TEXT - 1);
    struct str arm = str_slice(row->arm, 0, ROLLUP_TEXT - 1);
    for (uint32_t i = 0; i < r->n; i++) {
        struct rollup_cell *c = &r->cell[i];
        if (c->minute_us == minute_us && c->revision == row->revision &&
            str_eq_c(route, c->route) && str_eq_c(arm, c->arm))
            return c;
    }
    if (r->n == ROLLUP_CELLS)
        return NULL;
    struct rollup_cell *c = &r->cell[r->n++];
    *c = (struct rollup_cell){
        .minute_us = minute_us, .revision = row->revision, .first_row = row->row};
    copy_text(c->route, route);
    copy_text(c->arm, arm);
    return c;
}

int rollups_add(struct rollups *r, struct store *s, const struct scored_row *row, struct err *e)
{
    int64_t minute_us = row->committed_us - row->committed_us % ROLLUP_MINUTE_US;
    struct rollup_cell *c = find(r, row, minute_us);
    if (!c) {
        int rc = rollups_write(r, s, e);
        if (rc != ERR_OK)
            return rc;
        c = find(r, row, minute_us);
    }
    c->n++;
    c->n_unscored += !row->is_scored;
    c->reward_sum += row->reward; /* 0 when unscored */
    c->reward_squares += row->reward * row->reward;
    c->n_length += str_eq_c(row->finish_reason, "length");
    c->n_invalid += row->is_invalid;
    c->prompt_tokens += row->prompt_tokens;
    c->completion_tokens += row->completion_tokens;
    c->last_row = row->row;
    return ERR_OK;
}

static int write_hour(struct store *s, const struct rollup_cell *c, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "INSERT INTO rollups VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14) ON CONFLICT "
        "DO UPDATE SET n=n+?5,n_unscored=n_unscored+?6,reward_sum=reward_sum+?7,"
        "reward_squares=reward_squares+?8,n_length=n_length+?9,n_invalid=n_invalid+?10,"
        "prompt_tokens=prompt_tokens+?11,completion_tokens=completion_tokens+?12,last_row=?14",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    int64_t hour_us = c->minute_us - c->minute_us % ROLLUP_HOUR_US;
    const uint64_t numbers[] = {(uint64_t)hour_us, c->revision,          c->n,
                                c->n_unscored,     c->n_length,          c->n_invalid,
                                c->prompt_tokens,  c->completion_tokens, c->first_row,
                                c->last_row};
    static const int NUMBER_AT[] = {2, 3, 5, 6, 9, 10, 11, 12, 13, 14};
    for (size_t i = 0; i < sizeof NUMBER_AT / sizeof *NUMBER_AT; i++)
        db_bind_i64(q, NUMBER_AT[i], (int64_t)numbers[i]);
    db_bind_str(q, 1, str_from(c->route));
    db_bind_str(q, 4, str_from(c->arm));
    db_bind_f64(q, 7, c->reward_sum);
    db_bind_f64(q, 8, c->reward_squares);
    return db_run(q, NULL, e);
}

static int write_minute(struct store *s, const struct rollup_cell *c, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        s,
        "INSERT INTO minutes VALUES(?,?,?,?,?5,?6,?7) ON CONFLICT DO UPDATE SET n=n+?5,"
        "n_unscored=n_unscored+?6,reward_sum=reward_sum+?7",
        &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, str_from(c->route));
    db_bind_i64(q, 2, c->minute_us);
    db_bind_i64(q, 3, (int64_t)c->revision);
    db_bind_str(q, 4, str_from(c->arm));
    db_bind_i64(q, 5, (int64_t)c->n);
    db_bind_i64(q, 6, (int64_t)c->n_unscored);
    db_bind_f64(q, 7, c->reward_sum);
    return db_run(q, NULL, e);
}

static int forget_minutes(struct store *s, const struct rollup_cell *c, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "DELETE FROM minutes WHERE route=? AND minute_us<?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, str_from(c->route));
    db_bind_i64(q, 2, c->minute_us - ROLLUP_MINUTES_KEPT_US);
    return db_run(q, NULL, e);
}

static int write_cell(struct store *s, const struct rollup_cell *c, struct err *e)
{
    int rc = write_hour(s, c, e);
    if (rc == ERR_OK)
        rc = write_minute(s, c, e);
    return rc == ERR_OK ? forget_minutes(s, c, e) : rc;
}

int rollups_write(struct rollups *r, struct store *s, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < r->n; i++)
        rc = write_cell(s, &r->cell[i], e);
    r->n = 0;
    return rc;
}

int rollups_has(struct store *s, struct str route, uint64_t revision, bool *out, struct err *e)
{
    struct db_stmt *q;
    *out = false;
    int rc =
        store_statement(s, "SELECT 1 FROM rollups WHERE route=? AND revision=? LIMIT 1", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, (int64_t)revision);
    rc = db_step(q, e);
    *out = rc == ERR_OK;
    db_reset(q);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static const char *const TOTALS[TOTAL_KINDS] = {"outputs", "scores", "unscored", "feedback"};

int store_put_totals(struct store *s, const uint64_t n[TOTAL_KINDS], struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "UPDATE totals SET n=?2 WHERE what=?1 AND n<>?2", &q, e);
    for (int i = 0; rc == ERR_OK && i < TOTAL_KINDS; i++) {
        db_bind_str(q, 1, str_from(TOTALS[i]));
        db_bind_i64(q, 2, (int64_t)n[i]);
        rc = db_run(q, NULL, e);
    }
    return rc;
}

int store_get_totals(struct store *s, uint64_t n[TOTAL_KINDS], struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT n FROM totals WHERE what=?", &q, e);
    for (int i = 0; rc == ERR_OK && i < TOTAL_KINDS; i++) {
        db_bind_str(q, 1, str_from(TOTALS[i]));
        rc = db_step(q, e);
        if (rc == ERR_OK) {
            n[i] = (uint64_t)db_col_i64(q, 0);
            db_reset(q);
        }
    }
    return rc;
}

int store_put_tally(struct store *s, struct str route, uint64_t revision, struct str state,
                    struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s,
                             "INSERT OR REPLACE INTO tallies(route,revision,state) "
                             "VALUES(?,?,?)",
                             &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, (int64_t)revision);
    db_bind_str(q, 3, state);
    return db_run(q, NULL, e);
}

int store_get_tally(struct store *s, struct str route, uint64_t revision, struct arena *a,
                    struct str *state, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(s, "SELECT state FROM tallies WHERE route=? AND revision=?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, route);
    db_bind_i64(q, 2, (int64_t)revision);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    *state = arena_str(a, db_col_str(q, 0));
    db_reset(q);
    return state->p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a tally");
}
