/* Lines of JSON to and from a program. Nothing it says is trusted: not which question it answers,
 * not a type, not a range. */
#include "verifier/checks/program.h"

#include "common/hash.h"
#include "common/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PROGRAM_MAX_MIB = 64, ID_BYTES = 320 };

static const char *const REASONS[] = {
    "wrong",        "error",     "cpu_time", "timeout",  "memory",      "output_too_large",
    "ended_early",  "killed",    "no_code",  "no_tests", "unavailable", "no_reference",
    "inconclusive", "too_large",
};

static const char *reason_of(const json_t *v)
{
    const char *text = json_string_value(v);
    if (!text || !text[0])
        return "";
    for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++)
        if (str_eq_c(str_from(text), REASONS[i]))
            return REASONS[i];
    return "program";
}

struct str program_id(const struct output *o, struct arena *a)
{
    return arena_printf(a, STR_FMT "/%u", STR_ARG(o->request_id), o->choice);
}

static bool is_for(const json_t *answer, const struct output *o)
{
    char id[ID_BYTES];
    const char *got = json_string_value(json_object_get(answer, "id"));
    snprintf(id, sizeof id, STR_FMT "/%u", STR_ARG(o->request_id), o->choice);
    return got && str_eq_c(str_from(got), id);
}

/* False: none of the three forms. */
static bool read_form(const json_t *answer, struct check_verdict *v)
{
    const json_t *pass = json_object_get(answer, "pass"), *score = json_object_get(answer, "score");
    const json_t *unscored = json_object_get(answer, "unscored");
    const char *reason = reason_of(json_object_get(answer, "reason"));
    double value = json_number_value(score);
    if (!!pass + !!score + !!unscored != 1)
        return false;
    if (unscored && json_is_string(unscored)) {
        *v = check_unscored(reason_of(unscored)[0] ? reason_of(unscored) : "program");
        return true;
    }
    if (score && json_is_number(score) && value >= 0 && value <= 1) {
        *v = check_share(value, reason);
        return true;
    }
    *v = check_pass_if(json_is_true(pass), reason);
    return json_is_boolean(pass);
}

struct check_verdict program_read(const struct check_item *item, struct str answer, bool *is_broken)
{
    json_t *doc = NULL;
    struct check_verdict v;
    bool is_good = json_parse(answer, JSON_UNIQUE_KEYS, &doc, NULL) == ERR_OK &&
                   is_for(doc, item->output) && read_form(doc, &v);
    json_decref(doc);
    *is_broken = !is_good;
    return is_good ? v : check_unscored("malformed_answer");
}

static int add_file(const char *path, struct buf *all, struct err *e)
{
    struct stat st;
    struct buf file;
    char hex[SHA256_HEX];
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return ERR_OK;
    buf_init(&file, PROGRAM_MAX_MIB * MiB);
    int rc = io_read_file(path, &file, e);
    if (rc == ERR_OK) {
        sha256_hex(buf_str(&file), hex);
        buf_printf(all, "%s\n", hex);
    }
    buf_free(&file);
    return rc;
}

int program_content(const struct cfg_text_list *argv, char *out, struct err *e)
{
    struct buf all;
    int rc = ERR_OK;
    buf_init(&all, MiB);
    for (uint32_t i = 0; i < argv->n && rc == ERR_OK; i++) {
        char *path = str_dup_c(argv->item[i]);
        buf_put_str(&all, argv->item[i]);
        buf_put_char(&all, '\n');
        rc = path ? add_file(path, &all, e) : err_set(e, ERR_INVALID, "program[%u]: NUL in it", i);
        free(path);
    }
    if (rc == ERR_OK)
        rc = buf_check(&all, "program", e);
    if (rc == ERR_OK)
        sha256_hex(buf_str(&all), out);
    buf_free(&all);
    return rc;
}
