/* Questions come from the verifier, but carry what a model wrote. The harness says at its end how
 * it went, on a line that begins with a token made for this run: a program that ends early, or
 * prints "pass", does not pass. (Code that searches its own interpreter for the token could: in one
 * process there is no wall between code and its tests.) One thread. */
#include "verifier/sandbox/code_worker.h"

#include "common/rng.h"
#include "verifier/sandbox/sandbox.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64, TOKEN_BYTES = 40, QUESTION_MAX_MIB = 64 };

static const char HARNESS[] = "import json, os, sys\n"
                              "q = json.load(sys.stdin)\n"
                              "def make_end(token):\n"
                              "    def end(word):\n"
                              "        try:\n"
                              "            sys.stdout.flush()\n"
                              "        finally:\n"
                              "            os.write(1, ('\\n%s %s\\n' % (token, word)).encode())\n"
                              "            os._exit(0)\n"
                              "    return end\n"
                              "end = make_end(q.pop('token'))\n"
                              "try:\n"
                              "    space = {'__name__': '__main__'}\n"
                              "    exec(compile(q['code'], '<answer>', 'exec'), space)\n"
                              "    exec(compile(q['tests'], '<tests>', 'exec'), space)\n"
                              "except AssertionError:\n"
                              "    end('wrong')\n"
                              "except MemoryError:\n"
                              "    end('memory')\n"
                              "except BaseException:\n"
                              "    end('error')\n"
                              "end('pass')\n";

struct run {
    const char *argv[MAX_ARGS + 1];
    const char *readable[MAX_ARGS + 1];
    struct sandbox_job job;
    struct buf input;
    char token[TOKEN_BYTES];
    bool is_python;
};

static int read_texts(const struct json_at *q, const char *key, const char **out, size_t *n,
                      struct err *e)
{
    struct json_at list = json_field(q, key);
    struct str text;
    int rc = json_get_array(&list, MAX_ARGS - 3, n, e);
    for (size_t i = 0; i < *n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&list, i);
        rc = json_get_str(&item, &text, e);
        out[i] = rc == ERR_OK ? text.p : NULL; /* NUL-terminated in the document */
    }
    return rc;
}

static int read_limits(const struct json_at *q, struct sandbox_job *job, struct err *e)
{
    int64_t cpu = 2, wall = 10000, memory = 512, output = 64;
    int rc = json_opt_i64(q, "cpu_seconds", 1, 3600, &cpu, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(q, "wall_ms", 1, 3600000, &wall, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(q, "memory_mib", 1, 1 << 20, &memory, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(q, "output_kib", 1, 1 << 20, &output, e);
    job->cpu_seconds = (uint32_t)cpu;
    job->wall_ms = (uint32_t)wall;
    job->memory_bytes = (size_t)memory * MiB;
    job->output_bytes = (size_t)output * KiB;
    return rc;
}

static int put_python_input(struct run *r, struct str code, struct str tests, struct err *e)
{
    snprintf(r->token, sizeof r->token, "%016llx%016llx", (unsigned long long)rng_entropy(),
             (unsigned long long)rng_entropy());
    json_t *v = json_pack("{s:s,s:o,s:o}", "token", r->token, "code", json_str(code), "tests",
                          json_str(tests));
    int rc = v ? json_write(v, &r->input, e) : err_set(e, ERR_NOMEM, "no memory for a run");
    json_decref(v);
    return rc;
}

static int read_question(const struct json_at *q, struct run *r, struct err *e)
{
    struct str code = STR(""), tests = STR("");
    size_t n = 0, n_readable = 0;
    int rc = json_opt_str(q, "code", &code, e);
    if (rc == ERR_OK)
        rc = json_opt_str(q, "tests", &tests, e);
    if (rc == ERR_OK)
        rc = read_texts(q, "program", r->argv, &n, e);
    if (rc == ERR_OK)
        rc = read_texts(q, "readable", r->readable, &n_readable, e);
    if (rc == ERR_OK)
        rc = read_limits(q, &r->job, e);
    if (rc == ERR_OK && n == 0)
        rc = err_set(e, ERR_INVALID, "$.program: empty");
    if (rc != ERR_OK)
        return rc;
    r->is_python = n == 1;
    if (r->is_python) {
        static const char *const ARGS[] = {"-I", "-B", "-c", HARNESS};
        memcpy(r->argv + 1, ARGS, sizeof ARGS);
        return put_python_input(r, code, tests, e);
    }
    buf_put_str(&r->input, code);
    buf_put_char(&r->input, '\n');
    buf_put_str(&r->input, tests);
    return buf_check(&r->input, "code", e);
}

/* The word after the last line that begins with the token. */
static struct str harness_word(const struct run *r, struct str output)
{
    struct str line, word = STR("");
    while (str_split(&output, '\n', &line))
        if (str_starts(line, str_from(r->token)))
            word = str_trim(str_slice(line, strlen(r->token), line.n));
    return word;
}

static json_t *verdict(const struct run *r, const struct sandbox_result *s)
{
    static const char *const REASONS[] = {
        [SANDBOX_SIGNALLED] = "killed",
        [SANDBOX_CPU_TIME] = "cpu_time",
        [SANDBOX_WALL_TIME] = "timeout",
        [SANDBOX_OUTPUT] = "output_too_large",
    };
    if (s->end == SANDBOX_UNAVAILABLE || s->end == SANDBOX_NO_PROGRAM)
        return json_pack("{s:s}", "unscored", "unavailable");
    if (s->end != SANDBOX_EXITED)
        return json_pack("{s:b,s:s}", "pass", 0, "reason", REASONS[s->end]);
    if (!r->is_python)
        return json_pack("{s:b,s:s}", "pass", s->code == 0, "reason", s->code ? "error" : "");
    struct str word = harness_word(r, buf_str(&s->output));
    if (str_eq_c(word, "pass"))
        return json_pack("{s:b}", "pass", 1);
    if (word.n == 0)
        word = STR("ended_early");
    return json_pack("{s:b,s:s%}", "pass", 0, "reason", word.p, word.n);
}

json_t *code_worker_answer(struct str question)
{
    struct err e = {0};
    struct run r = {0};
    struct sandbox_result s = {.end = SANDBOX_UNAVAILABLE};
    json_t *doc = NULL, *answer = NULL;
    buf_init(&r.input, QUESTION_MAX_MIB * MiB);
    int rc = json_parse(question, JSON_UNIQUE_KEYS, &doc, &e);
    struct json_at at = json_root(doc);
    if (rc == ERR_OK)
        rc = read_question(&at, &r, &e);
    r.job.argv = r.argv;
    r.job.readable = r.readable;
    r.job.input = buf_str(&r.input);
    if (rc == ERR_OK)
        rc = sandbox_run(&r.job, &s, &e);
    if (rc == ERR_OK)
        answer = verdict(&r, &s);
    else
        fprintf(stderr, "milepost-verifier " CODE_WORKER ": %s\n", e.msg);
    if (!answer)
        answer = json_pack("{s:s}", "unscored", "unavailable");
    if (answer && json_object_get(doc, "id"))
        json_object_set(answer, "id", json_object_get(doc, "id"));
    buf_free(&s.output);
    buf_free(&r.input);
    json_decref(doc);
    return answer;
}

int code_worker_run(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    bool is_good = true;
    signal(SIGPIPE, SIG_IGN);
    while (is_good && (n = getline(&line, &cap, stdin)) > 0) {
        json_t *answer = code_worker_answer((struct str){line, (size_t)n});
        is_good = answer && json_dumpf(answer, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF &&
                  fflush(stdout) == 0;
        json_decref(answer);
    }
    free(line);
    return is_good ? 0 : 1;
}
