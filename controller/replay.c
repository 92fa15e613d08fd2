/* Replay. Matching is by (place in the order, route), so the order of the routes in a configuration
 * does not matter; the chain is checked over all decisions first. */
#include "controller/replay.h"

#include "common/clock.h"
#include "common/log.h"
#include "controller/course.h"
#include "controller/replay_audit.h"
#include "controller/store/retention.h"
#include "controller/store/revisions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUTES = 256 };

struct replayed {
    struct course course;
    uint64_t last_ord; /* of the stored state; what came later has no decision yet */
};

struct replay {
    struct store *store;
    struct replayed route[MAX_ROUTES];
    uint32_t n_route;
    struct course_result *result;
    struct arena arena; /* of one event */
    bool *is_matched;   /* [n_decisions + 1] */
    uint64_t n_decisions;
    char last_hash[65];
    bool only_decisions;
    struct replay_report *report;
    int64_t last_row; /* of the whole database */
    struct mono begin, told;
};

enum { TELL_EVERY_ROWS = 1024, TELL_EVERY_US = 5000000 };

/* A start that waits for this says how far it is. */
static void tell(struct replay *r, uint64_t row)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    if (mono_since_us(r->told, now) < TELL_EVERY_US)
        return;
    r->told = now;
    log_event(LOG_INFO, "replay.progress", "row=%llu of=%lld seconds=%.0f", (unsigned long long)row,
              (long long)r->last_row, (double)mono_since_us(r->begin, now) * 1e-6);
}

static void PRINTF_LIKE(3, 4) differ(struct replay *r, uint64_t decision, const char *fmt, ...)
{
    va_list args;
    if (!r->report->agrees)
        return;
    r->report->agrees = false;
    r->report->first_decision = decision;
    va_start(args, fmt);
    vsnprintf(r->report->difference, sizeof r->report->difference, fmt, args);
    va_end(args);
}

/* The chain. */

static int check_link(uint64_t number, uint64_t ord, struct str json, void *ctx, struct err *e)
{
    struct replay *r = ctx;
    struct decision d;
    struct err why = {0};
    json_t *v = NULL;
    (void)ord;
    (void)e;
    arena_reset(&r->arena);
    r->n_decisions++;
    int rc = json_parse(json, 0, &v, &why);
    if (rc == ERR_OK) {
        struct json_at at = json_root(v);
        rc = decision_decode(&at, &r->arena, &d, &why);
    }
    json_decref(v);
    if (rc != ERR_OK) {
        differ(r, number, "decision %llu was changed: %s", (unsigned long long)number, why.msg);
        return ERR_OK;
    }
    if (number != r->n_decisions || d.number != number)
        differ(r, number, "decision %llu stands where number %llu must stand: one is missing",
               (unsigned long long)number, (unsigned long long)r->n_decisions);
    else if (strcmp(d.previous_hash, r->last_hash) != 0)
        differ(r, number,
               "decision %llu: the chain is broken before it (previous %.12s, want %.12s)",
               (unsigned long long)number, d.previous_hash, r->last_hash);
    memcpy(r->last_hash, d.hash, sizeof r->last_hash);
    return ERR_OK;
}

/* One decision against its stored twin. */

static char *short_text(const json_t *v)
{
    return v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
}

static void say_field(struct replay *r, uint64_t number, const char *key, const json_t *mine,
                      const json_t *stored)
{
    char *a = short_text(mine), *b = short_text(stored);
    differ(r, number, "decision %llu: %s: recomputed %.120s, stored %.120s",
           (unsigned long long)number, key, a ? a : "nothing", b ? b : "nothing");
    free(a);
    free(b);
}

static void compare_fields(struct replay *r, uint64_t number, json_t *mine, json_t *stored)
{
    const char *key;
    json_t *v;
    json_object_foreach(stored, key, v)
    {
        if (strcmp(key, "hash") != 0 && !json_equal(v, json_object_get(mine, key)))
            say_field(r, number, key, json_object_get(mine, key), v);
    }
    json_object_foreach(mine, key, v)
    {
        if (!json_object_get(stored, key))
            say_field(r, number, key, v, NULL);
    }
}

/* Decisions of databases from before schema 2 do not carry the rows' hash; their seal still holds
 * for what they say. */
static int as_old_as(struct replay *r, struct str stored, struct str *mine, struct err *e)
{
    json_t *was = NULL, *now = NULL;
    struct buf b;
    int rc;
    buf_init(&b, 64 * KiB);
    TRY(json_parse(stored, 0, &was, e));
    if (json_object_get(was, "rows_hash"))
        goto out;
    TRY(json_parse(*mine, 0, &now, e));
    json_object_del(now, "rows_hash");
    TRY(json_write_canonical(now, &b, e));
    *mine = arena_str(&r->arena, buf_str(&b));
    if (!mine->p)
        TRY(err_set(e, ERR_NOMEM, "replay: no memory"));
out:
    json_decref(was);
    json_decref(now);
    buf_free(&b);
    return rc;
}

static int compare(struct replay *r, struct decision *mine, uint64_t number, struct str json,
                   struct err *e)
{
    json_t *stored = NULL, *again = NULL;
    struct decision was;
    int rc;
    TRY(json_parse(json, 0, &stored, e));
    struct json_at at = json_root(stored);
    if (decision_decode(&at, &r->arena, &was, NULL) != ERR_OK)
        goto out; /* told by the chain */
    mine->number = number;
    memcpy(mine->previous_hash, was.previous_hash, sizeof mine->previous_hash);
    TRY(as_old_as(r, was.detail, &mine->detail, e));
    TRY(decision_seal(mine, e));
    if (strcmp(mine->hash, was.hash) == 0)
        goto out;
    again = decision_encode(mine);
    compare_fields(r, number, again, stored);
    differ(r, number, "decision %llu: hash differs", (unsigned long long)number);
out:
    json_decref(stored);
    json_decref(again);
    return rc;
}

static int match(struct replay *r, const struct course *c, uint64_t ord, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(
        r->store, "SELECT number,json FROM decisions WHERE ord=? AND route=? ORDER BY number", &q,
        e);
    if (rc != ERR_OK)
        return rc;
    db_bind_i64(q, 1, (int64_t)ord);
    db_bind_str(q, 2, str_from(c->route));
    for (uint32_t i = 0; rc == ERR_OK && i < r->result->n; i++) {
        rc = db_step(q, e);
        if (rc == ERR_NOT_FOUND) {
            differ(r, 0,
                   "route %s, row %llu: recomputed a decision '" STR_FMT "' that is not stored",
                   c->route, (unsigned long long)ord, STR_ARG(r->result->decision[i].action));
            return ERR_OK;
        }
        uint64_t number = rc == ERR_OK ? (uint64_t)db_col_i64(q, 0) : 0;
        if (number <= r->n_decisions)
            r->is_matched[number] = true;
        if (rc == ERR_OK)
            rc = compare(r, &r->result->decision[i], number, db_col_str(q, 1), e);
    }
    db_reset(q);
    return rc;
}

static int feed_row(const struct scored_row *row, void *ctx, struct err *e)
{
    struct replay *r = ctx;
    int rc = ERR_OK;
    if (++r->report->n_rows % TELL_EVERY_ROWS == 0 && r->only_decisions)
        tell(r, row->row);
    arena_reset(&r->arena);
    for (uint32_t i = 0; rc == ERR_OK && i < r->n_route; i++) {
        if (row->row > r->route[i].last_ord)
            continue;
        rc = course_feed_row(&r->route[i].course, row, &r->arena, r->result, e);
        if (rc == ERR_OK && r->result->n)
            rc = match(r, &r->route[i].course, row->row, e);
    }
    return rc;
}

static int feed_event(const struct stored_event *ev, void *ctx, struct err *e)
{
    struct replay *r = ctx;
    struct err why = {0};
    r->report->n_events++;
    arena_reset(&r->arena);
    for (uint32_t i = 0; i < r->n_route; i++) {
        struct course *c = &r->route[i].course;
        bool is_later = ev->ord > r->route[i].last_ord && !str_eq_c(ev->kind, "law");
        if (is_later || !str_eq_c(ev->route, c->route))
            continue;
        int rc = course_feed_event(c, ev, &r->arena, r->result, &why);
        if (rc == ERR_OK && r->result->n)
            return match(r, c, ev->ord, e);
        if (rc != ERR_OK) {
            differ(r, 0, "event %llu (" STR_FMT " of route %s) cannot be fed: %s",
                   (unsigned long long)ev->ord, STR_ARG(ev->kind), c->route, why.msg);
            c->ord = ev->ord;
        }
    }
    return ERR_OK;
}

/* Set-up and the end. */

static int revision_of(void *ctx, uint64_t number, struct policy_revision *out, struct err *e)
{
    struct replay *r = ctx;
    struct revision rev;
    struct arena a;
    arena_init(&a, MiB);
    int rc = store_get_revision(r->store, number, &a, &rev, e);
    if (rc == ERR_OK)
        *out = course_revision(&rev);
    arena_free(&a);
    return rc;
}

static int find_routes(struct replay *r, struct err *e)
{
    struct db_stmt *q;
    int rc = store_statement(r->store, "SELECT route,ord FROM policy_state ORDER BY route", &q, e);
    if (rc != ERR_OK)
        return rc;
    while (r->n_route < MAX_ROUTES && (rc = db_step(q, e)) == ERR_OK) {
        struct replayed *p = &r->route[r->n_route++];
        course_init(&p->course, db_col_str(q, 0), revision_of, r);
        p->last_ord = (uint64_t)db_col_i64(q, 1);
        rc = store_law_from(r->store, db_col_str(q, 0), &p->course.law_from, e);
        if (rc != ERR_OK)
            break;
        if (p->course.law_from > r->report->law_from)
            r->report->law_from = p->course.law_from;
    }
    db_reset(q);
    r->report->n_routes = r->n_route;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static bool is_same_state(const struct stored_state *a, const struct stored_state *b)
{
    return str_eq(a->state, b->state) && str_eq(a->settings, b->settings) &&
           str_eq(a->rows_hash, b->rows_hash) && str_eq(a->law, b->law) &&
           str_eq(a->phase, b->phase) && str_eq(a->experiment, b->experiment) &&
           a->champion == b->champion && a->challenger == b->challenger && a->share == b->share;
}

static int check_columns(struct replay *r, struct err *e)
{
    char text[200];
    int rc = replay_audit(r->store, text, sizeof text, e);
    if (rc == ERR_OK && text[0])
        differ(r, 0, "%s", text);
    return rc;
}

static int check_state(struct replay *r, const struct replayed *p, struct err *e)
{
    struct stored_state was, now;
    struct arena a;
    if (!p->course.policy && p->course.law_from) /* a route that was not configured any more */
        return ERR_OK;
    arena_init(&a, 64 * MiB);
    int rc = store_get_state(r->store, str_from(p->course.route), &a, &was, e);
    if (rc == ERR_OK && p->course.policy)
        rc = course_save(&p->course, &a, &now, e);
    if (rc == ERR_OK && (!p->course.policy || !is_same_state(&was, &now)))
        differ(r, 0,
               "route %s: the law's state after row %llu differs from the stored one: a row "
               "was changed, added or removed",
               p->course.route, (unsigned long long)p->last_ord);
    arena_free(&a);
    return rc;
}

/* What another version of the laws decided is vouched for by the chain alone. */
static int pass_sealed(struct replay *r, const struct course *c, struct err *e)
{
    struct db_stmt *q;
    int rc =
        store_statement(r->store, "SELECT number FROM decisions WHERE route=? AND ord<?", &q, e);
    if (rc != ERR_OK)
        return rc;
    db_bind_str(q, 1, str_from(c->route));
    db_bind_i64(q, 2, (int64_t)c->law_from);
    while ((rc = db_step(q, e)) == ERR_OK) {
        uint64_t number = (uint64_t)db_col_i64(q, 0);
        if (number > r->n_decisions)
            continue;
        r->is_matched[number] = true;
        r->report->n_sealed++;
    }
    db_reset(q);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void check_unmatched(struct replay *r)
{
    for (uint64_t i = 1; i <= r->n_decisions; i++) {
        if (!r->is_matched[i]) {
            differ(r, i, "decision %llu is stored but was not recomputed", (unsigned long long)i);
            return;
        }
    }
}

/* From which row on the texts are still there. */
static int find_texts(struct replay *r, struct err *e)
{
    struct db_stmt *q;
    int64_t id;
    int rc = store_texts_from(r->store, &id, e);
    if (rc == ERR_OK)
        rc = store_statement(r->store,
                             "SELECT (SELECT count(*) FROM outputs WHERE id<?1),"
                             "(SELECT s.row FROM outputs o JOIN scores s ON s.output=o.id AND"
                             " s.request_id=o.request_id AND s.choice=o.choice"
                             " WHERE o.id>=?1 ORDER BY o.id,s.row LIMIT 1)",
                             &q, e);
    if (rc != ERR_OK || id <= 1)
        return rc;
    db_bind_i64(q, 1, id);
    rc = db_step(q, e);
    if (rc != ERR_OK)
        return rc;
    r->report->n_texts_expired = (uint64_t)db_col_i64(q, 0);
    r->report->texts_from = (uint64_t)db_col_i64(q, 1);
    db_reset(q);
    return ERR_OK;
}

static int run(struct replay *r, struct err *e)
{
    int rc;
    TRY(db_exec(store_db(r->store), "BEGIN", e)); /* one snapshot */
    TRY(find_routes(r, e));
    TRY(store_number(r->store, "SELECT coalesce(max(row),0) FROM scores", &r->last_row, e));
    TRY(store_walk_decisions(r->store, 0, check_link, r, e));
    r->report->n_decisions = r->n_decisions;
    r->is_matched = calloc(r->n_decisions + 1, sizeof *r->is_matched);
    if (!r->is_matched)
        TRY(err_set(e, ERR_NOMEM, "replay: no memory"));
    for (uint32_t i = 0; i < r->n_route; i++)
        TRY(pass_sealed(r, &r->route[i].course, e));
    TRY(store_walk_order(r->store, 0, feed_row, feed_event, r, e));
    check_unmatched(r);
    r->report->decisions_agree = r->report->agrees;
    if (r->only_decisions)
        goto out;
    for (uint32_t i = 0; rc == ERR_OK && i < r->n_route; i++)
        rc = check_state(r, &r->route[i], e);
    if (rc == ERR_OK)
        rc = check_columns(r, e);
    if (rc == ERR_OK)
        rc = find_texts(r, e);
out:
    return rc;
}

static int replay(const char *database, bool only_decisions, const struct db_stop *stop,
                  struct replay_report *out, struct err *e)
{
    *out = (struct replay_report){.agrees = true};
    struct replay *r = calloc(1, sizeof *r);
    struct course_result *result = calloc(1, sizeof *result);
    int rc = r && result ? ERR_OK : err_set(e, ERR_NOMEM, "replay: no memory");
    if (rc == ERR_OK) {
        r->report = out;
        r->only_decisions = only_decisions;
        r->result = result;
        r->begin = r->told = clock_mono(&CLOCK_REAL);
        arena_init(&r->arena, 64 * MiB);
        rc = store_open_readonly(&r->store, database, e);
    }
    if (rc == ERR_OK) {
        db_stop_when(store_db(r->store), stop);
        rc = run(r, e);
    }
    if (r) {
        for (uint32_t i = 0; i < r->n_route; i++)
            course_close(&r->route[i].course);
        store_close(r->store);
        free(r->is_matched);
        arena_free(&r->arena);
    }
    free(result);
    free(r);
    return rc;
}

int replay_run(const char *database, struct replay_report *out, struct err *e)
{
    return replay(database, false, NULL, out, e);
}

int replay_decisions(const char *database, const struct db_stop *stop, struct replay_report *out,
                     struct err *e)
{
    return replay(database, true, stop, out, e);
}
