/* Feeding a law and turning its actions into decisions.
 *
 * Invariant: a decision is a function of the event (its place, time, actor) and of the law's state;
 * nothing here reads a clock or the outside. That is what makes replay exact. */
#include "controller/course.h"

#include "common/buf.h"
#include "common/hash.h"
#include "controller/decisions.h"
#include "controller/experiments/plan.h"
#include "controller/policies/state_codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum policy_event_kind kind;
} KINDS[] = {
    {"tick", EVENT_TICK},
    {"champion", EVENT_CHAMPION},
    {"start", EVENT_START},
    {"stop", EVENT_STOP},
    {"promote", EVENT_PROMOTE},
    {"rollback", EVENT_ROLLBACK},
    {"hold", EVENT_HOLD},
    {"resume", EVENT_RESUME},
    {"crash", EVENT_CRASH},
    {"experiment", EVENT_EXPERIMENT},
    {"experiment_stop", EVENT_EXPERIMENT_STOP},
};

void course_init(struct course *c, struct str route, course_revision_fn *fn, void *ctx)
{
    *c = (struct course){.revision_of = fn, .revision_ctx = ctx};
    size_t n = route.n < sizeof c->route ? route.n : sizeof c->route - 1;
    memcpy(c->route, route.p, n);
}

void course_close(struct course *c)
{
    policy_close(c->policy);
    c->policy = NULL;
}

struct policy_revision course_revision(const struct revision *r)
{
    struct policy_revision out = {.number = r->number};
    struct params client = {0}, effective;
    params_resolve(&r->params, &client, &effective);
    memcpy(out.knob, effective.v, sizeof out.knob);
    memcpy(out.hash, r->hash, sizeof out.hash);
    return out;
}

static uint64_t source_of(struct str engine, uint64_t epoch)
{
    return hash64(engine.p, engine.n, epoch);
}

static enum policy_finish finish_of(struct str reason)
{
    static const char *const NAMES[] = {"stop", "length", "cancelled", "error"};
    for (int i = 0; i < 4; i++) {
        if (str_eq_c(reason, NAMES[i]))
            return (enum policy_finish)i;
    }
    return FINISH_ERROR;
}

static struct policy_row row_of(const struct course *c, const struct scored_row *r)
{
    return (struct policy_row){.source = source_of(r->engine, r->epoch),
                               .admission = r->admission,
                               .row = r->row,
                               .is_foreign = !str_eq_c(r->route, c->route),
                               .choice = r->choice,
                               .revision = r->revision,
                               .experiment = r->experiment,
                               .stratum = r->stratum,
                               .checks = r->version,
                               .propensity = r->propensity,
                               .is_scored = r->is_scored,
                               .reward = r->reward,
                               .finish = finish_of(r->finish_reason),
                               .is_scored_b = r->is_scored_b,
                               .reward_b = r->reward_b,
                               .is_invalid = r->is_invalid,
                               .is_refusal = r->is_refusal,
                               .is_repetitive = r->is_repetitive,
                               .session = str_eq(r->unit, r->request_id) ? STR("") : r->unit,
                               .latency_us = r->latency_us,
                               .prompt_tokens = r->prompt_tokens,
                               .completion_tokens = r->completion_tokens};
}

/* As printf's "%a ", which almost every reward, 0 or 1, would wait for. */
static void put_hex_real(struct buf *b, double x)
{
    if (x == 1.0)
        buf_put_c(b, "0x1p+0 ");
    else if (x == 0.0 && !signbit(x))
        buf_put_c(b, "0x0p+0 ");
    else
        buf_printf(b, "%a ", x);
}

static void put_hash(struct buf *b, const unsigned char digest[SHA256_BYTES])
{
    char text[SHA256_HEX];
    hash_hex(digest, SHA256_BYTES, text);
    text[SHA256_HEX - 1] = ' ';
    buf_put(b, text, SHA256_HEX);
}

/* hash(previous, fields, hashes of the long texts). Each row of each law: no printf. */
static void vouch_row(struct course *c, const struct scored_row *row)
{
    char text[2048]; /* names are bounded by their codecs */
    struct buf b = {.p = text, .cap = sizeof text, .max_bytes = sizeof text};
    if (!str_eq_c(row->route, c->route))
        return;
    buf_put_c(&b, c->rows_hash);
    buf_put_c(&b, " row ");
    buf_put_u64(&b, row->row);
    buf_put_char(&b, ' ');
    buf_put_i64(&b, row->committed_us);
    buf_put_c(&b, row->is_scored ? " 1 " : " 0 ");
    put_hex_real(&b, row->reward);
    if (row->is_scored_b)
        put_hex_real(&b, row->reward_b);
    buf_put_c(&b, row->is_invalid ? "1 " : "0 ");
    put_hash(&b, row->raw_hash);
    put_hash(&b, row->checks_hash);
    buf_put_str(&b, row->verifier);
    buf_put_char(&b, ' ');
    buf_put_str(&b, row->check_set);
    buf_put_char(&b, ' ');
    buf_put_str(&b, row->version);
    sha256_hex(buf_str(&b), c->rows_hash);
}

static void vouch_event(struct course *c, const struct stored_event *ev)
{
    char actor[SHA256_HEX], reason[SHA256_HEX], payload[SHA256_HEX], text[1024];
    sha256_hex(ev->actor.p ? ev->actor : STR(""), actor);
    sha256_hex(ev->reason.p ? ev->reason : STR(""), reason);
    sha256_hex(ev->payload.p ? ev->payload : STR(""), payload);
    int n = snprintf(text, sizeof text, "%s event %llu %lld %s %s %s " STR_FMT, c->rows_hash,
                     (unsigned long long)ev->ord, (long long)ev->at_us, actor, reason, payload,
                     STR_ARG(ev->kind));
    sha256_hex((struct str){text, n < (int)sizeof text ? (size_t)n : sizeof text - 1},
               c->rows_hash);
}

int course_feed_row(struct course *c, const struct scored_row *row, struct arena *a,
                    struct course_result *out, struct err *e)
{
    out->n = 0;
    if (row->row <= c->ord)
        return ERR_OK;
    if (row->row < c->law_from) {
        c->ord = row->row;
        vouch_row(c, row);
        return ERR_OK;
    }
    if (!c->policy)
        return ERR_OK;
    struct policy_event ev = {
        .kind = EVENT_ROW, .now_us = (uint64_t)row->committed_us, .row = row_of(c, row)};
    int rc = policy_step(c->policy, &ev, &out->actions, e);
    if (rc != ERR_OK)
        return rc;
    c->ord = row->row;
    vouch_row(c, row);
    struct decision_cause cause = {.ord = row->row, .at_us = row->committed_us};
    return out->actions.n ? decisions_of(c, &cause, a, out, e) : ERR_OK;
}

/* New settings keep the state when the law is the same; another law starts from nothing. */
static int change_settings(struct course *c, const json_t *payload, struct err *e)
{
    struct policy_settings s;
    struct policy *fresh = NULL;
    json_t *state = NULL;
    int rc = policy_settings_decode(payload, &s, e);
    if (rc == ERR_OK)
        rc = policy_open(&fresh, &s, e);
    if (rc == ERR_OK && c->policy && policy_settings_of(c->policy)->kind == s.kind) {
        state = policy_state_encode(c->policy);
        rc = state ? policy_state_decode(fresh, state, e)
                   : err_set(e, ERR_NOMEM, "no memory for a law's state");
    }
    json_decref(state);
    if (rc != ERR_OK) {
        policy_close(fresh);
        return rc;
    }
    policy_close(c->policy);
    c->policy = fresh;
    return ERR_OK;
}

static int read_revision(struct course *c, const struct json_at *payload,
                         struct policy_revision *out, struct err *e)
{
    struct json_at at = json_field(payload, "revision");
    int64_t number;
    int rc = json_get_i64(&at, 1, INT64_MAX, &number, e);
    return rc == ERR_OK ? c->revision_of(c->revision_ctx, (uint64_t)number, out, e) : rc;
}

/* {"id", the plan's keys, "revisions":[champion, ...]} */
static int read_experiment(struct course *c, const struct json_at *payload, struct arena *a,
                           struct policy_event *ev, struct err *e)
{
    struct experiment_setup *st = arena_alloc(a, sizeof *st);
    struct json_at list = json_field(payload, "revisions");
    size_t n = 0;
    int64_t number;
    if (!st)
        return err_set(e, ERR_NOMEM, "no memory for an experiment");
    *st = (struct experiment_setup){0};
    ev->experiment = st;
    int rc = json_opt_str(payload, "id", &st->id, e);
    if (rc == ERR_OK)
        rc = experiment_plan_decode(payload, &st->plan, e);
    if (rc == ERR_OK)
        rc = json_get_array(&list, EXPERIMENT_ARMS, &n, e);
    for (size_t i = 0; rc == ERR_OK && i < n; i++) {
        struct json_at item = json_item(&list, i);
        rc = json_get_i64(&item, 1, INT64_MAX, &number, e);
        if (rc == ERR_OK)
            rc = c->revision_of(c->revision_ctx, (uint64_t)number, &st->arm[i], e);
    }
    st->n_arm = (uint32_t)n;
    return rc;
}

static int fill_event(struct course *c, const struct json_at *payload, struct arena *a,
                      struct policy_event *ev, struct err *e)
{
    if (ev->kind == EVENT_CHAMPION)
        return read_revision(c, payload, &ev->champion, e);
    if (ev->kind == EVENT_EXPERIMENT)
        return read_experiment(c, payload, a, ev, e);
    if (ev->kind != EVENT_START)
        return ERR_OK;
    int rc = read_revision(c, payload, &ev->start.challenger, e);
    if (rc == ERR_OK)
        rc = json_opt_str(payload, "experiment", &ev->start.experiment, e);
    if (rc == ERR_OK)
        rc = json_opt_bool(payload, "is_now", &ev->start.is_now, e);
    if (rc == ERR_OK)
        rc = json_opt_bool(payload, "takes_non_inferior", &ev->start.takes_non_inferior, e);
    if (rc == ERR_OK)
        rc = json_opt_bool(payload, "is_revert", &ev->start.is_revert, e);
    return rc == ERR_OK ? json_opt_bool(payload, "is_own", &ev->start.is_own, e) : rc;
}

static int find_kind(struct str name, enum policy_event_kind *out, struct err *e)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (str_eq_c(name, KINDS[i].name)) {
            *out = KINDS[i].kind;
            return ERR_OK;
        }
    }
    return err_set(e, ERR_CORRUPT, "no event kind \"" STR_FMT "\"", STR_ARG(name));
}

/* The trial that another version of the laws had running. */
static int read_ended(const struct json_at *payload, struct arena *a, struct decision_cause *cause,
                      struct err *e)
{
    int64_t challenger = 0;
    int rc = json_opt_str(payload, "experiment", &cause->ended, e);
    cause->ended = arena_str(a, cause->ended.p ? cause->ended : STR(""));
    if (rc == ERR_OK)
        rc = json_opt_i64(payload, "challenger", 0, INT64_MAX, &challenger, e);
    cause->champion_before = (uint64_t)challenger;
    return rc;
}

static int feed(struct course *c, const struct stored_event *ev, const json_t *payload,
                struct arena *a, struct course_result *out, struct err *e)
{
    struct json_at root = json_root(payload);
    struct policy_event pe = {.now_us = (uint64_t)ev->at_us};
    struct policy_view before;
    if (str_eq_c(ev->kind, "settings")) {
        int changed = change_settings(c, payload, e);
        if (changed == ERR_OK)
            vouch_event(c, ev);
        return changed;
    }
    if (str_eq_c(ev->kind, "law")) {
        course_close(c);
        c->law_from = ev->ord;
        vouch_event(c, ev);
        return ERR_OK;
    }
    if (!c->policy)
        return err_set(e, ERR_CORRUPT, "route %s: an event before its settings", c->route);
    int rc = find_kind(ev->kind, &pe.kind, e);
    if (rc == ERR_OK)
        rc = fill_event(c, &root, a, &pe, e);
    if (rc != ERR_OK)
        return rc;
    policy_view(c->policy, &before);
    rc = policy_step(c->policy, &pe, &out->actions, e);
    if (rc != ERR_OK)
        return rc;
    vouch_event(c, ev);
    struct decision_cause cause = {.ord = ev->ord,
                                   .at_us = ev->at_us,
                                   .kind = ev->kind,
                                   .actor = ev->actor,
                                   .reason = ev->reason,
                                   .champion_before = before.champion};
    rc = json_opt_str(&root, "why", &cause.why, e);
    if (rc == ERR_OK && str_eq_c(cause.why, "upgrade"))
        rc = read_ended(&root, a, &cause, e);
    return rc == ERR_OK ? decisions_of(c, &cause, a, out, e) : rc;
}

int course_feed_event(struct course *c, const struct stored_event *ev, struct arena *a,
                      struct course_result *out, struct err *e)
{
    json_t *payload = NULL;
    out->n = 0;
    out->actions.n = 0;
    if (ev->ord <= c->ord || !str_eq_c(ev->route, c->route))
        return ERR_OK;
    if (ev->ord < c->law_from && !str_eq_c(ev->kind, "law")) {
        c->ord = ev->ord;
        vouch_event(c, ev);
        return ERR_OK;
    }
    int rc = json_parse(ev->payload, 0, &payload, e);
    if (rc == ERR_OK)
        rc = feed(c, ev, payload, a, out, e);
    if (rc == ERR_OK)
        c->ord = ev->ord;
    json_decref(payload);
    return rc;
}

/* Takes what was written to the arena, and empties the buffer. */
static int keep_text(struct buf *b, struct arena *a, struct str *out, struct err *e)
{
    int rc = buf_check(b, "a law's state", e);
    if (rc == ERR_OK) {
        *out = arena_str(a, buf_str(b));
        if (!out->p)
            rc = err_set(e, ERR_NOMEM, "no memory for a law's state");
    }
    buf_reset(b);
    return rc;
}

int course_save(const struct course *c, struct arena *a, struct stored_state *out, struct err *e)
{
    struct policy_view v;
    const struct policy_settings *s = policy_settings_of(c->policy);
    policy_view(c->policy, &v);
    *out = (struct stored_state){.route = str_from(c->route),
                                 .ord = c->ord,
                                 .phase = str_from(v.phase),
                                 .experiment = arena_str(a, str_from(v.experiment)),
                                 .champion = v.champion,
                                 .challenger = v.challenger,
                                 .share = v.share};
    out->rows_hash = str_from(c->rows_hash);
    out->law = str_from(policy_law_name(s->kind));
    struct buf b;
    buf_init(&b, STATE_MAX_BYTES);
    policy_settings_write(s, &b);
    int rc = keep_text(&b, a, &out->settings, e);
    policy_state_write(c->policy, &b);
    if (rc == ERR_OK)
        rc = keep_text(&b, a, &out->state, e);
    buf_free(&b);
    return rc;
}

int course_load(struct course *c, const struct stored_state *st, struct err *e)
{
    struct policy_settings s;
    struct policy *p = NULL;
    int rc = st->rows_hash.n == sizeof c->rows_hash - 1
                 ? policy_settings_read(st->settings, &s, e)
                 : err_set(e, ERR_CORRUPT, "the rows behind it have no hash");
    if (rc == ERR_OK)
        rc = policy_open(&p, &s, e);
    if (rc == ERR_OK)
        rc = policy_state_read(p, st->state, e);
    if (rc != ERR_OK) {
        policy_close(p);
        return rc;
    }
    policy_close(c->policy);
    c->policy = p;
    c->ord = st->ord;
    memcpy(c->rows_hash, st->rows_hash.p, sizeof c->rows_hash - 1);
    return ERR_OK;
}
