/* Turns each row of a truth table into parameters, metadata and an output for one check, runs it
 * and compares. Which field becomes what is data: CASE_KINDS. One thread. */
#include "verifier/cases.h"

#include "verifier/check.h"
#include "verifier/text/text.h"

#include <string.h>

enum reference_use {
    REFERENCE_METADATA_TEXT, /* metadata.reference = the text */
    REFERENCE_METADATA_JSON, /* metadata.reference = the JSON value */
    REFERENCE_PARAMETER,     /* one parameter = the text */
    REFERENCE_PAIRS,         /* key=value,key=value: parameters */
    REFERENCE_PARAMS_JSON    /* a JSON object: parameters */
};

struct case_kind {
    const char *kind, *check, *params; /* params: JSON the row starts from */
    enum reference_use use;
    const char *parameter; /* REFERENCE_PARAMETER: its name. REFERENCE_PAIRS: prefix of keys */
    bool compares_measure, output_is_finish_reason, output_is_tokens;
    const char *pass_word, *fail_word;
};

#define WORDS .pass_word = "pass", .fail_word = "fail"
static const struct case_kind CASE_KINDS[] = {
    {"json", "json", "{}", REFERENCE_PARAMETER, "mode", WORDS},
    {"json_embedded", "json", "{\"mode\":\"embedded\",\"compare\":true}", REFERENCE_METADATA_JSON,
     WORDS},
    {"json_keys", "json", "{\"mode\":\"embedded\"}", REFERENCE_PARAMS_JSON, WORDS},
    {"jsonschema", "json_schema", "{}", REFERENCE_PARAMETER, "schema", WORDS},
    {"constraints", "constraints", "{\"field\":\"reference\"}", REFERENCE_METADATA_JSON, WORDS},
    {"language", "language", "{}", REFERENCE_PARAMETER, "allow", WORDS},
    {"gsm8k", "number", "{}", REFERENCE_METADATA_TEXT, WORDS},
    {"number", "number", "{}", REFERENCE_METADATA_TEXT, WORDS},
    {"math", "math", "{}", REFERENCE_METADATA_TEXT, WORDS},
    {"choice", "choice", "{}", REFERENCE_METADATA_TEXT, WORDS},
    {"refusal", "refusal", "{}", REFERENCE_METADATA_TEXT, .pass_word = "not_refusal",
     .fail_word = "refusal"},
    {"exact", "exact", "{}", REFERENCE_METADATA_TEXT, WORDS},
    {"contains", "contains", "{}", REFERENCE_PARAMS_JSON, WORDS},
    {"regex", "regex", "{}", REFERENCE_PARAMETER, "pattern", WORDS},
    {"length", "length", "{}", REFERENCE_PAIRS, "", WORDS},
    {"finish_reason", "finish_reason", "{}", REFERENCE_PARAMETER, "allow",
     .output_is_finish_reason = true, WORDS},
    {"repetition_ngram", "repetition", "{}", REFERENCE_PAIRS, "", .compares_measure = true},
    {"repetition_tail", "repetition", "{\"max\":1}", REFERENCE_PAIRS, "tail_",
     .output_is_tokens = true, .pass_word = "clean", .fail_word = "repeat"},
};
enum { CASE_KINDS_N = sizeof CASE_KINDS / sizeof CASE_KINDS[0], FIELDS = 5, SKIPPED_MAX = 32 };
enum { MAX_ROW_TOKENS = 4096 };

struct row {
    uint32_t line;
    struct str kind, options, output, reference, expected;
};

struct skipped {
    struct str kind;
    uint32_t rows;
};

struct run {
    struct buf *out;
    struct cases_report *report;
    struct skipped skipped[SKIPPED_MAX];
    struct arena arena; /* one row */
};

static int unescape(struct str s, struct arena *a, struct str *out, struct err *e)
{
    static const char from[] = "\\ntr", to[] = "\\\n\t\r";
    char *p = arena_alloc(a, s.n + 1);
    size_t n = 0;
    if (!p)
        return err_set(e, ERR_NOMEM, "no memory for a row");
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\\') {
            p[n++] = s.p[i];
            continue;
        }
        const char *hit = i + 1 < s.n ? memchr(from, s.p[i + 1], 4) : NULL;
        if (!hit)
            return err_set(e, ERR_INVALID, "unknown escape, allowed: \\\\ \\n \\t \\r");
        p[n++] = to[hit - from];
        i++;
    }
    *out = (struct str){p, n};
    return ERR_OK;
}

static int parse_row(struct str line, struct arena *a, struct row *row, struct err *e)
{
    struct str field[FIELDS], rest = line;
    int n = 0;
    while (n < FIELDS && str_split(&rest, '\t', &field[n]))
        n++;
    if (n != FIELDS || rest.p)
        return err_set(e, ERR_INVALID,
                       "found %s than 5 fields, allowed: kind, output, reference, "
                       "expected, source",
                       rest.p ? "more" : "fewer");
    struct str *to[] = {&row->kind, &row->output, &row->reference, &row->expected};
    int rc = ERR_OK;
    for (int i = 0; i < 4 && rc == ERR_OK; i++)
        rc = unescape(field[i], a, to[i], e);
    if (rc == ERR_OK) {
        struct str kind = row->kind;
        str_split(&kind, ':', &row->kind);
        row->options = kind.p ? kind : STR("");
    }
    return rc;
}

static const struct case_kind *find_kind(struct str kind)
{
    for (int i = 0; i < CASE_KINDS_N; i++)
        if (str_eq_c(kind, CASE_KINDS[i].kind))
            return &CASE_KINDS[i];
    return NULL;
}

/* "key=value,key=value" into parameters; a value that is JSON is taken as such. */
static int add_pairs(json_t *params, struct str pairs, const char *prefix, struct arena *a,
                     struct err *e)
{
    struct str pair, rest = pairs;
    while (pairs.n && str_split(&rest, ',', &pair)) {
        struct str value = pair, key;
        str_split(&value, '=', &key);
        if (!value.p)
            return err_set(e, ERR_INVALID, "found '" STR_FMT "', allowed: key=value",
                           STR_ARG(str_slice(pair, 0, 40)));
        json_t *v = json_loadb(value.p, value.n, JSON_DECODE_ANY, NULL);
        struct str name = arena_printf(a, "%s" STR_FMT, prefix, STR_ARG(key));
        if (!name.p || json_object_set_new(params, name.p, v ? v : json_str(value)) != 0)
            return err_set(e, ERR_NOMEM, "no memory for a row");
    }
    return ERR_OK;
}

static int add_object(json_t *params, struct str text, struct err *e)
{
    json_t *more = NULL;
    int rc = json_parse(text, 0, &more, e);
    if (rc == ERR_OK && json_object_update(params, more) != 0)
        rc = err_set(e, ERR_NOMEM, "no memory for a row");
    json_decref(more);
    return rc;
}

static int build(const struct case_kind *k, const struct row *row, struct arena *a, json_t *params,
                 json_t *metadata, struct err *e)
{
    json_t *value = NULL;
    int rc = add_object(params, str_from(k->params), e);
    if (rc == ERR_OK)
        rc = add_pairs(params, row->options, "", a, e);
    if (rc != ERR_OK)
        return rc;
    if (k->use == REFERENCE_PAIRS)
        return add_pairs(params, row->reference, k->parameter, a, e);
    if (k->use == REFERENCE_PARAMS_JSON)
        return add_object(params, row->reference, e);
    if (k->use == REFERENCE_METADATA_JSON) {
        rc = json_parse(row->reference, JSON_ANY_VALUE, &value, e);
        if (rc != ERR_OK)
            return rc;
    } else {
        value = json_str(row->reference);
    }
    bool is_parameter = k->use == REFERENCE_PARAMETER;
    const char *name = is_parameter ? k->parameter : "reference";
    if (json_object_set_new(is_parameter ? params : metadata, name, value) != 0)
        return err_set(e, ERR_NOMEM, "no memory for a row");
    return ERR_OK;
}

static int words_to_tokens(struct output *o, struct arena *a, struct err *e)
{
    int32_t *ids = arena_array(a, MAX_ROW_TOKENS, sizeof *ids);
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for a row");
    struct str rest = o->text, word;
    while (o->n_tokens < MAX_ROW_TOKENS && text_next_word(&rest, &word))
        ids[o->n_tokens++] = (int32_t)(text_hash_lower(word) & INT32_MAX);
    o->token_ids = ids;
    return ERR_OK;
}

static int run_check(const struct case_kind *k, const struct row *row, const json_t *params,
                     const json_t *metadata, struct arena *a, struct check_verdict *v,
                     struct err *e)
{
    const struct check_ops *ops = check_find(str_from(k->check));
    struct output o = {.text = row->output, .finish_reason = STR("stop")};
    struct json_at at = json_root(params);
    void *state = NULL;
    int rc = ops ? ERR_OK : err_set(e, ERR_BUG, "check %s is not in the registry", k->check);
    if (rc == ERR_OK && k->output_is_finish_reason)
        o.finish_reason = row->output;
    if (rc == ERR_OK && k->output_is_tokens)
        rc = words_to_tokens(&o, a, e);
    if (rc == ERR_OK)
        rc = ops->open(&state, &at, e);
    if (rc != ERR_OK)
        return rc;
    struct check_item item = {.output = &o, .metadata = metadata, .arena = a};
    *v = ops->run(state, &item);
    ops->close(state);
    return ERR_OK;
}

/* The word a verdict gives in the table's language. */
static struct str verdict_word(const struct case_kind *k, const struct check_verdict *v,
                               struct arena *a)
{
    if (v->outcome == SCORE_UNSCORED)
        return str_from(v->reason);
    if (k->compares_measure)
        return arena_printf(a, "%.4f", v->measure);
    if (v->outcome == SCORE_VALUE)
        return arena_printf(a, "%.4f", v->value);
    return str_from(v->outcome == SCORE_PASS ? k->pass_word : k->fail_word);
}

static void judge(struct run *r, const struct row *row, const struct case_kind *k,
                  const struct check_verdict *v)
{
    struct str got = verdict_word(k, v, &r->arena);
    if (str_eq(got, row->expected)) {
        r->report->agreed++;
        return;
    }
    r->report->disagreed++;
    struct str shown = str_slice(row->output, 0, 60);
    buf_printf(r->out, "line %u: %s: want " STR_FMT ", got " STR_FMT "%s%s; output: \"", row->line,
               k->kind, STR_ARG(row->expected), STR_ARG(got), *v->reason ? " because " : "",
               v->reason);
    buf_put_json(r->out, shown);
    buf_put_c(r->out, shown.n < row->output.n ? "...\"\n" : "\"\n");
}

static int run_row(struct run *r, const struct row *row, const struct case_kind *k, struct err *e)
{
    json_t *params = json_object(), *metadata = json_object();
    struct check_verdict v = {.reason = ""};
    int rc = build(k, row, &r->arena, params, metadata, e);
    uint64_t start = check_cpu_us();
    if (rc == ERR_OK)
        rc = run_check(k, row, params, metadata, &r->arena, &v, e);
    uint64_t spent = check_cpu_us() - start;
    if (spent > r->report->slowest_us) {
        r->report->slowest_us = spent;
        r->report->slowest_line = row->line;
    }
    if (rc == ERR_OK)
        judge(r, row, k, &v);
    json_decref(params);
    json_decref(metadata);
    return rc;
}

/* kind is borrowed from the table, not from the row's arena. */
static void skip_row(struct run *r, struct str kind)
{
    r->report->skipped++;
    for (int i = 0; i < SKIPPED_MAX; i++) {
        struct skipped *s = &r->skipped[i];
        if (s->rows && !str_eq(s->kind, kind) && i + 1 < SKIPPED_MAX)
            continue;
        s->kind = s->rows ? s->kind : kind;
        s->rows++;
        return;
    }
}

static int run_line(struct run *r, struct str line, uint32_t number, struct err *e)
{
    struct row row = {.line = number};
    struct str kind = line, first;
    arena_reset(&r->arena);
    r->report->rows++;
    str_split(&kind, '\t', &first);
    kind = first;
    str_split(&first, ':', &kind);
    int rc = parse_row(line, &r->arena, &row, e);
    const struct case_kind *k = find_kind(kind);
    if (rc == ERR_OK && !k)
        skip_row(r, kind);
    else if (rc == ERR_OK)
        rc = run_row(r, &row, k, e);
    return rc == ERR_OK ? rc : err_wrap(e, "line %u", number);
}

static void write_total(struct run *r)
{
    const struct cases_report *p = r->report;
    for (int i = 0; i < SKIPPED_MAX && r->skipped[i].rows; i++)
        buf_printf(r->out, "skipped: kind " STR_FMT " is not known here (%u rows)\n",
                   STR_ARG(r->skipped[i].kind), r->skipped[i].rows);
    buf_printf(r->out,
               "total: %u rows, %u agree, %u disagree, %u skipped; slowest %.3f ms (line %u)\n",
               p->rows, p->agreed, p->disagreed, p->skipped, (double)p->slowest_us / 1000,
               p->slowest_line);
}

int cases_run(struct str table, struct buf *out, struct cases_report *report, struct err *e)
{
    *report = (struct cases_report){0};
    struct run r = {.out = out, .report = report};
    struct str rest = table, line;
    int rc = ERR_OK;
    arena_init(&r.arena, 64 * MiB);
    for (uint32_t number = 1; rc == ERR_OK && str_split(&rest, '\n', &line); number++) {
        if (str_ends(line, STR("\r")))
            line.n--;
        if (number > 1 && line.n)
            rc = run_line(&r, line, number, e);
    }
    if (rc == ERR_OK)
        write_total(&r);
    arena_free(&r.arena);
    return rc == ERR_OK ? buf_check(out, "report", e) : rc;
}
