/* code: the program in the answer runs against tests in a sandbox (verifier/sandbox), in worker
 * processes of our own. Where the kernel cannot confine it the check is unscored: unavailable. */
#include "common/hash.h"
#include "verifier/checks/program.h"
#include "verifier/checks/service.h"
#include "verifier/remote/workers.h"
#include "verifier/text/text.h"

#include <stdlib.h>

struct code {
    struct cfg_text_list program, readable;
    struct str field, tests;
    int block;
    bool prepend_prompt;
    int64_t cpu_seconds, wall_ms, memory_mib, output_kib, workers;
    struct remote_limits limits;
    struct remote_lane *lane;
    char content[SHA256_HEX];
    struct arena arena;
};

enum { ANSWER_MAX_BYTES = 64 * 1024, BLOCK_LAST = 0, BLOCK_FIRST = 1, BLOCK_WHOLE = 2 };
static const char *const BLOCKS[] = {"last", "first", "whole", NULL};
static const struct str PYTHON[] = {{"/usr/bin/python3", 16}};

#define AT(member) offsetof(struct code, member)
static const struct option OPTIONS[] = {
    {"program", OPTION_TEXTS, AT(program), 0, 0, NULL,
     "one path: Python; path and arguments: any program, code and tests on its input"},
    {"readable", OPTION_TEXTS, AT(readable), 0, 0, NULL, "folders besides the system's"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field with the tests"},
    {"tests", OPTION_TEXT, AT(tests), 0, 0, NULL, "tests for every output, else metadata"},
    {"block", OPTION_ENUM, AT(block), 0, 0, BLOCKS, "which fenced block is the code"},
    {"prepend_prompt", OPTION_BOOL, AT(prepend_prompt), 0, 0, NULL, "the prompt begins the code"},
    {"cpu_seconds", OPTION_INT, AT(cpu_seconds), 1, 600, NULL, "then it fails"},
    {"wall_ms", OPTION_INT, AT(wall_ms), 10, 600000, NULL, "then it fails; less than timeout_ms"},
    {"memory_mib", OPTION_INT, AT(memory_mib), 16, 65536, NULL, "address space"},
    {"output_kib", OPTION_INT, AT(output_kib), 1, 65536, NULL, "what it may print"},
    {"workers", OPTION_INT, AT(workers), 1, 64, NULL, "runs at once"},
    REMOTE_OPTIONS(struct code, limits),
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void code_close(void *state)
{
    struct code *c = state;
    if (!c)
        return;
    remote_lane_close(c->lane);
    arena_free(&c->arena);
    free(c);
}

static int open_lane(struct code *c, struct err *e)
{
    static const char *const ARGV[] = {"/proc/self/exe", "code-worker", NULL};
    const struct workers_config workers = {
        .argv = ARGV, .count = c->workers, .max_answer_bytes = ANSWER_MAX_BYTES};
    c->limits.concurrency = c->workers;
    const struct remote_lane_config lane = {.kind = "code",
                                            .workers = &workers,
                                            .max_answer_bytes = ANSWER_MAX_BYTES,
                                            .limits = c->limits};
    return remote_lane_open(&c->lane, &lane, e);
}

static void set_defaults(struct code *c)
{
    c->limits = (struct remote_limits)REMOTE_LIMITS_DEFAULT;
    c->limits.breaker_failures = 0; /* the worker is ours: what takes long is the code */
    c->program = (struct cfg_text_list){(struct str *)PYTHON, 1};
    c->field = STR("tests");
    c->cpu_seconds = 2;
    c->wall_ms = 8000;
    c->memory_mib = 512;
    c->output_kib = 64;
    c->workers = 2;
}

static int code_open(void **state, const struct json_at *params, struct err *e)
{
    struct code *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&c->arena, 256 * KiB);
    set_defaults(c);
    int rc = options_read(OPTIONS, OPTIONS_N, params, &c->arena, c, e);
    for (uint32_t i = 0; i < c->readable.n && rc == ERR_OK; i++)
        if (!str_starts(c->readable.item[i], STR("/")))
            rc = err_set(e, ERR_INVALID, "readable[%u]: allowed: an absolute path", i);
    if (rc == ERR_OK && (c->program.n == 0 || !str_starts(c->program.item[0], STR("/"))))
        rc = err_set(e, ERR_INVALID, "program: allowed: an absolute path, and arguments");
    if (rc == ERR_OK)
        rc = program_content(&c->program, c->content, e);
    if (rc == ERR_OK)
        rc = open_lane(c, e);
    if (rc != ERR_OK) {
        code_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static struct remote_lane *code_lane(const void *state)
{
    return ((const struct code *)state)->lane;
}

static const char *code_content(const void *state)
{
    return ((const struct code *)state)->content;
}

/* A fenced block, first or last; without any the whole text. A block that is not closed ends with
 * the text. */
static struct str find_block(struct str text, bool is_last)
{
    struct str rest = text, line, best = {NULL, 0};
    const char *begin = NULL;
    while (str_split(&rest, '\n', &line)) {
        if (!str_starts(text_trim(line), STR("```")))
            continue;
        if (!begin) {
            begin = line.p + line.n + (line.p + line.n < text.p + text.n);
            continue;
        }
        best = (struct str){begin, (size_t)(line.p - begin)};
        begin = NULL;
        if (!is_last)
            return best;
    }
    if (begin && (is_last || !best.p))
        best = (struct str){begin, (size_t)(text.p + text.n - begin)};
    return best.p ? best : text;
}

static json_t *texts(const struct cfg_text_list *list)
{
    json_t *v = json_array();
    for (uint32_t i = 0; i < list->n; i++)
        json_array_append_new(v, json_str(list->item[i]));
    return v;
}

static bool code_ask(const void *state, const struct check_item *item, struct str *question,
                     struct check_verdict *v)
{
    const struct code *c = state;
    const struct output *o = item->output;
    const json_t *given = json_object_getn(item->metadata, c->field.p, c->field.n);
    struct str tests = c->tests;
    if (tests.n == 0 && json_is_string(given))
        tests = (struct str){json_string_value(given), json_string_length(given)};
    struct str code =
        c->block == BLOCK_WHOLE ? o->text : find_block(o->text, c->block == BLOCK_LAST);
    if (tests.n == 0 || text_trim(code).n == 0) {
        *v = tests.n == 0 ? check_unscored("no_tests") : check_pass_if(false, "no_code");
        return false;
    }
    if (c->prepend_prompt)
        code = arena_printf(item->arena, STR_FMT STR_FMT, STR_ARG(service_prompt(o, item->arena)),
                            STR_ARG(code));
    json_t *q =
        json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I}", "id",
                  json_str(program_id(o, item->arena)), "code", json_str(code), "tests",
                  json_str(tests), "program", texts(&c->program), "readable", texts(&c->readable),
                  "cpu_seconds", (json_int_t)c->cpu_seconds, "wall_ms", (json_int_t)c->wall_ms,
                  "memory_mib", (json_int_t)c->memory_mib, "output_kib", (json_int_t)c->output_kib);
    return check_question(q, item->arena, question, v);
}

static struct check_verdict code_read(const void *state, const struct check_item *item,
                                      struct str answer, bool *is_broken)
{
    (void)state;
    return program_read(item, answer, is_broken);
}

const struct check_ops CHECK_CODE = {
    .kind = "code",
    .code_version = 1,
    .summary = "the program in the answer passes its tests, in a sandbox",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = code_open,
    .close = code_close,
    .lane = code_lane,
    .ask = code_ask,
    .read = code_read,
    .content = code_content,
};
