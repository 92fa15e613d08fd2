/* command: any program judges. It runs long, reads one JSON line per output and writes one back
 * (program.h); deploy/checks/example.py is one. */
#include "common/hash.h"
#include "verifier/checks/program.h"
#include "verifier/checks/service.h"
#include "verifier/remote/workers.h"

#include <stdlib.h>

struct command {
    struct cfg_text_list program;
    struct str folder;
    const json_t *params; /* handed to the program with every question */
    int64_t workers, memory_mib, max_answers;
    struct remote_limits limits;
    struct remote_lane *lane;
    char content[SHA256_HEX];
    struct arena arena;
};

enum { ANSWER_MAX_BYTES = 64 * 1024, WORKERS_MAX = 64 };

#define AT(member) offsetof(struct command, member)
static const struct option OPTIONS[] = {
    {"program", OPTION_TEXTS, AT(program), 0, 0, NULL, "path and arguments; no shell"},
    {"folder", OPTION_TEXT, AT(folder), 0, 0, NULL, "working folder"},
    {"with", OPTION_JSON, AT(params), 0, 0, NULL, "object handed on with every question"},
    {"workers", OPTION_INT, AT(workers), 1, WORKERS_MAX, NULL, "processes"},
    {"memory_mib", OPTION_INT, AT(memory_mib), 0, 1 << 20, NULL, "of each; 0 = no limit"},
    {"max_answers", OPTION_INT, AT(max_answers), 0, 1e9, NULL, "then it is replaced; 0 = never"},
    REMOTE_OPTIONS(struct command, limits),
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void command_close(void *state)
{
    struct command *c = state;
    if (!c)
        return;
    remote_lane_close(c->lane);
    arena_free(&c->arena);
    free(c);
}

static int open_lane(struct command *c, struct err *e)
{
    const char **argv = arena_array(&c->arena, c->program.n + 1, sizeof *argv);
    for (uint32_t i = 0; argv && i < c->program.n; i++)
        argv[i] = arena_str(&c->arena, c->program.item[i]).p;
    struct str folder = arena_str(&c->arena, c->folder);
    if (!argv || !folder.p)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    const struct workers_config workers = {.argv = argv,
                                           .folder = folder.n ? folder.p : NULL,
                                           .count = c->workers,
                                           .memory_mib = c->memory_mib,
                                           .max_answers = c->max_answers,
                                           .max_answer_bytes = ANSWER_MAX_BYTES};
    c->limits.concurrency = c->workers;
    const struct remote_lane_config lane = {.kind = "command",
                                            .workers = &workers,
                                            .max_answer_bytes = ANSWER_MAX_BYTES,
                                            .limits = c->limits};
    return remote_lane_open(&c->lane, &lane, e);
}

static int command_open(void **state, const struct json_at *params, struct err *e)
{
    struct command *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&c->arena, 256 * KiB);
    c->limits = (struct remote_limits)REMOTE_LIMITS_DEFAULT;
    c->workers = 1;
    int rc = options_read(OPTIONS, OPTIONS_N, params, &c->arena, c, e);
    if (rc == ERR_OK && c->program.n == 0)
        rc = err_set(e, ERR_INVALID, "program: missing, allowed: a list of path and arguments");
    if (rc == ERR_OK)
        rc = program_content(&c->program, c->content, e);
    if (rc == ERR_OK)
        rc = open_lane(c, e);
    if (rc != ERR_OK) {
        command_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static struct remote_lane *command_lane(const void *state)
{
    return ((const struct command *)state)->lane;
}

static const char *command_content(const void *state)
{
    return ((const struct command *)state)->content;
}

static bool command_ask(const void *state, const struct check_item *item, struct str *question,
                        struct check_verdict *v)
{
    const struct command *c = state;
    const struct output *o = item->output;
    json_t *q = json_pack("{s:o,s:o,s:o,s:o,s:O?,s:O?}", "id", json_str(program_id(o, item->arena)),
                          "prompt", json_str(service_prompt(o, item->arena)), "response",
                          json_str(o->text), "finish_reason", json_str(o->finish_reason),
                          "metadata", item->metadata, "with", c->params);
    return check_question(q, item->arena, question, v);
}

static struct check_verdict command_read(const void *state, const struct check_item *item,
                                         struct str answer, bool *is_broken)
{
    (void)state;
    return program_read(item, answer, is_broken);
}

const struct check_ops CHECK_COMMAND = {
    .kind = "command",
    .code_version = 1,
    .summary = "a program of yours judges: one JSON line in, one out",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = command_open,
    .close = command_close,
    .lane = command_lane,
    .ask = command_ask,
    .read = command_read,
    .content = command_content,
};
