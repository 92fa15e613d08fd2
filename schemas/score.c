/* Codec of milepost.score.v1. The scored output travels inside as it was received: encoding splices
 * its text, so that a verifier neither understands nor rewrites it. No state; any thread. */
#include "schemas/score.h"

#include "common/json_members.h"
#include "schemas/codec_direct.h"

#include <math.h>
#include <string.h>

enum { SCORE_MAX_BYTES = OUTPUT_MAX_BYTES + 256 * 1024 };

static const char *const OUTCOMES[] = {
    [SCORE_PASS] = "pass",
    [SCORE_FAIL] = "fail",
    [SCORE_VALUE] = "value",
    [SCORE_UNSCORED] = "unscored",
};
enum { N_OUTCOME = sizeof OUTCOMES / sizeof *OUTCOMES };

#define FIELD(key, type, flags, max)                                                               \
    {                                                                                              \
#key, type, flags, offsetof(struct score, key), 0, max                                     \
    }

static const struct codec_field FIELDS[] = {
    FIELD(verifier, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(check_set, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(version, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(engine, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(request_id, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(choice, CODEC_U32, 0, 0),
    FIELD(reward, CODEC_REAL, CODEC_SKIP_EMPTY, 1),
    FIELD(reward_b, CODEC_REAL, CODEC_SKIP_EMPTY, 1),
    FIELD(reason, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    FIELD(duration_us, CODEC_U64, 0, 0),
};

static const struct codec_field CHECK_FIELDS[] = {
    {"id", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct check_result, id), 0,
     CODEC_MAX_NAME},
    {"kind", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct check_result, kind), 0,
     CODEC_MAX_NAME},
    {"value", CODEC_REAL, CODEC_SKIP_EMPTY, offsetof(struct check_result, value), 0, 1},
    {"weight", CODEC_REAL, CODEC_REQUIRED, offsetof(struct check_result, weight), 0, 1e6},
    {"gate", CODEC_BOOL, 0, offsetof(struct check_result, is_gate), 0, 0},
    {"set_b", CODEC_BOOL, CODEC_SKIP_EMPTY, offsetof(struct check_result, is_b), 0, 0},
    {"duration_us", CODEC_U64, 0, offsetof(struct check_result, duration_us), 0, 0},
    {"reason", CODEC_TEXT, CODEC_SKIP_EMPTY, offsetof(struct check_result, reason), 0,
     CODEC_MAX_NAME},
};

enum {
    N_FIELD = sizeof FIELDS / sizeof *FIELDS,
    N_CHECK_FIELD = sizeof CHECK_FIELDS / sizeof *CHECK_FIELDS
};

const char *score_outcome_name(enum score_outcome o)
{
    return (unsigned)o < N_OUTCOME ? OUTCOMES[o] : OUTCOMES[SCORE_UNSCORED];
}

/* Encoding. */

static int put_check(struct buf *out, const struct check_result *c, struct err *e)
{
    struct check_result copy = *c;
    if (c->outcome == SCORE_UNSCORED)
        copy.value = NAN; /* left out: never a zero */
    buf_put_c(out, "{\"outcome\":\"");
    buf_put_c(out, score_outcome_name(c->outcome));
    buf_put_char(out, '"');
    int rc = codec_write_direct(out, CHECK_FIELDS, N_CHECK_FIELD, &copy, e);
    buf_put_char(out, '}');
    return rc;
}

static int put_checks(struct buf *out, const struct score *s, struct err *e)
{
    int rc = ERR_OK;
    buf_put_c(out, ",\"checks\":[");
    for (uint32_t i = 0; i < s->n_check && i < SCORE_MAX_CHECKS && rc == ERR_OK; i++) {
        if (i)
            buf_put_char(out, ',');
        rc = put_check(out, &s->check[i], e);
    }
    buf_put_char(out, ']');
    return rc;
}

static bool is_object_text(struct str text)
{
    return text.n >= 2 && text.p[0] == '{' && text.p[text.n - 1] == '}';
}

int score_encode(const struct score *s, struct buf *out, struct err *e)
{
    struct score copy = *s;
    if (!s->is_scored)
        copy.reward = NAN;
    else if (!(s->reward >= 0 && s->reward <= 1))
        return err_set(e, ERR_INVALID, "score: reward %g is outside [0, 1]", s->reward);
    if (!s->is_scored_b)
        copy.reward_b = NAN;
    if (!is_object_text(s->output_json))
        return err_set(e, ERR_INVALID, "score: the scored output must be a JSON object");
    codec_open_direct(out, SCORE_SCHEMA);
    int rc = codec_write_direct(out, FIELDS, N_FIELD, &copy, e);
    buf_put_c(out, s->is_scored ? ",\"scored\":true" : ",\"scored\":false");
    if (rc == ERR_OK)
        rc = put_checks(out, s, e);
    buf_put_c(out, ",\"output\":");
    buf_put_str(out, s->output_json);
    buf_put_char(out, '}');
    return rc == ERR_OK ? buf_check(out, "score", e) : rc;
}

/* Decoding. */

static int get_check(const struct json_at *at, struct arena *a, struct check_result *out,
                     struct err *e)
{
    size_t outcome = SCORE_UNSCORED;
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        rc = codec_read(at, CHECK_FIELDS, N_CHECK_FIELD, a, out, e);
    if (rc == ERR_OK)
        rc = codec_get_name(at, "outcome", OUTCOMES, N_OUTCOME, &outcome, e);
    out->outcome = (enum score_outcome)outcome;
    if (rc == ERR_OK && out->outcome != SCORE_UNSCORED && isnan(out->value))
        rc = err_set(e, ERR_INVALID, "$.checks: \"%.40s\" is scored but has no value", out->id.p);
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

static int get_checks(const struct json_at *root, struct arena *a, struct score *out, struct err *e)
{
    struct json_at at = json_field(root, "checks");
    size_t n = 0;
    int rc = json_get_array(&at, SCORE_MAX_CHECKS, &n, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&at, i);
        rc = get_check(&item, a, &out->check[i], e);
    }
    out->n_check = (uint32_t)n;
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

/* The output stays text; its own codec reads it. */
static int get_output(struct str text, struct arena *a, struct score *out, struct err *e)
{
    if (!is_object_text(text) || text.n > OUTPUT_MAX_BYTES)
        return err_set(e, ERR_INVALID, "$.output: must be an object of at most %d bytes",
                       OUTPUT_MAX_BYTES);
    out->output_json = arena_str(a, text);
    return out->output_json.p ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory for a score");
}

enum { CHECKS, SCORED, OUTPUT, N_APART };

static int read_scored(const struct codec_apart *part, struct score *out, struct err *e)
{
    json_t *doc = NULL;
    out->is_scored = str_eq_c(part->text, "true");
    if (out->is_scored || str_eq_c(part->text, "false"))
        return ERR_OK;
    int rc = codec_parse_apart(part, &doc, e);
    struct json_at root = json_root(doc), at = json_field(&root, "scored");
    if (rc == ERR_OK)
        rc = json_get_bool(&at, &out->is_scored, e);
    json_decref(doc);
    return rc;
}

/* As it is usually written; false: over the tree, which also words what is wrong. */
static bool take_check(struct str text, struct arena *a, struct check_result *out)
{
    struct codec_apart part = {.key = "outcome"};
    const struct codec_direct c = {NULL, SCORE_MAX_BYTES, CHECK_FIELDS, N_CHECK_FIELD, &part, 1};
    if (codec_read_direct(text, &c, a, out, NULL) != ERR_OK || part.text.n < 2)
        return false;
    struct str name = str_slice(part.text, 1, part.text.n - 1);
    for (size_t i = 0; i < N_OUTCOME; i++) {
        if (!str_eq_c(name, OUTCOMES[i]) || part.text.p[0] != '"')
            continue;
        out->outcome = (enum score_outcome)i;
        return out->outcome == SCORE_UNSCORED || !isnan(out->value);
    }
    return false;
}

static bool take_checks(struct str text, struct arena *a, struct score *out)
{
    struct json_members items;
    struct str item;
    uint32_t n = 0;
    int rc = json_items_open(&items, text, NULL);
    while (rc == ERR_OK && (rc = json_items_next(&items, &item, NULL)) == ERR_OK)
        if (n == SCORE_MAX_CHECKS || !take_check(item, a, &out->check[n++]))
            return false;
    out->n_check = n;
    return rc == ERR_NOT_FOUND;
}

static int read_checks(const struct codec_apart *part, struct arena *a, struct score *out,
                       struct err *e)
{
    json_t *doc = NULL;
    if (take_checks(part->text, a, out))
        return ERR_OK;
    int rc = codec_parse_apart(part, &doc, e);
    struct json_at root = json_root(doc);
    if (rc == ERR_OK)
        rc = get_checks(&root, a, out, e);
    json_decref(doc);
    return rc;
}

static int decode_parts(const struct codec_apart *part, struct arena *a, struct score *out,
                        struct err *e)
{
    int rc = read_scored(&part[SCORED], out, e);
    if (rc == ERR_OK)
        rc = read_checks(&part[CHECKS], a, out, e);
    if (rc == ERR_OK && out->is_scored == isnan(out->reward))
        rc = err_set(e, ERR_INVALID, "$.reward: must be there when scored, and only then");
    out->is_scored_b = rc == ERR_OK && !isnan(out->reward_b);
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

int score_decode(struct str json, struct arena *a, struct score *out, struct err *e)
{
    struct codec_apart part[N_APART] = {
        [CHECKS] = {.key = "checks"}, [SCORED] = {.key = "scored"}, [OUTPUT] = {.key = "output"}};
    const struct codec_direct c = {SCORE_SCHEMA, SCORE_MAX_BYTES, FIELDS, N_FIELD, part, N_APART};
    *out = (struct score){0};
    int rc = codec_read_direct(json, &c, a, out, e);
    if (rc == ERR_OK)
        rc = decode_parts(part, a, out, e);
    return rc == ERR_OK ? get_output(part[OUTPUT].text, a, out, e) : rc;
}
