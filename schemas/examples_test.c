/* The examples of schemas/examples against the codecs: each valid one is read, written and read
 * again to the same text; each invalid one is refused. tests/contract checks the same files against
 * the JSON Schemas, and what is written here too when MILEPOST_ENCODED_DIR names a folder. */
#include "schemas/control.h"
#include "schemas/decision.h"
#include "schemas/feedback.h"
#include "schemas/score.h"

#include "common/io.h"
#include "common/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int recode_fn(struct str text, struct arena *a, struct buf *out, struct err *e);

static int recode_output(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct output o;
    int rc = output_decode(text, a, &o, e);
    return rc == ERR_OK ? output_encode(&o, out, e) : rc;
}

static int recode_score(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct score *s = arena_alloc(a, sizeof *s);
    int rc = score_decode(text, a, s, e);
    return rc == ERR_OK ? score_encode(s, out, e) : rc;
}

static int recode_control(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct control c;
    int rc = control_decode(text, a, &c, e);
    return rc == ERR_OK ? control_encode(&c, out, e) : rc;
}

static int recode_feedback(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct feedback f;
    int rc = feedback_decode(text, a, &f, e);
    return rc == ERR_OK ? feedback_encode(&f, out, e) : rc;
}

static int write_and_drop(json_t *v, struct buf *out, struct err *e)
{
    assert_non_null(v);
    int rc = json_write(v, out, e);
    json_decref(v);
    return rc;
}

static int recode_revision(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct revision r;
    json_t *doc = NULL;
    int rc = json_parse(text, 0, &doc, e);
    struct json_at at = json_root(doc);
    if (rc == ERR_OK)
        rc = revision_decode(&at, a, &r, e);
    json_decref(doc);
    return rc == ERR_OK ? write_and_drop(revision_encode(&r), out, e) : rc;
}

static int recode_decision(struct str text, struct arena *a, struct buf *out, struct err *e)
{
    struct decision d;
    json_t *doc = NULL;
    int rc = json_parse(text, 0, &doc, e);
    struct json_at at = json_root(doc);
    if (rc == ERR_OK)
        rc = decision_decode(&at, a, &d, e);
    json_decref(doc);
    return rc == ERR_OK ? write_and_drop(decision_encode(&d), out, e) : rc;
}

static const struct {
    const char *name;
    recode_fn *recode;
} MESSAGES[] = {
    {"output", recode_output},     {"score", recode_score},       {"control", recode_control},
    {"feedback", recode_feedback}, {"revision", recode_revision}, {"decision", recode_decision},
};
enum { N_MESSAGE = sizeof MESSAGES / sizeof *MESSAGES };

static void keep(const char *message, const char *file, struct str text)
{
    const char *folder = getenv("MILEPOST_ENCODED_DIR");
    if (!folder)
        return;
    char path[600];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s.%s", folder, message, file);
    assert_ok(io_write_file(path, text, &e), &e);
}

static void check_valid(size_t i, const char *file, struct str text)
{
    struct arena a;
    struct buf once, twice;
    struct err e = {0};
    arena_init(&a, 64 * MiB);
    buf_init(&once, 8 * MiB);
    buf_init(&twice, 8 * MiB);
    if (MESSAGES[i].recode(text, &a, &once, &e) != ERR_OK)
        fail_msg("valid/%s/%s: %s", MESSAGES[i].name, file, e.msg);
    assert_ok(MESSAGES[i].recode(buf_str(&once), &a, &twice, &e), &e);
    assert_true(str_eq(buf_str(&once), buf_str(&twice)));
    keep(MESSAGES[i].name, file, buf_str(&once));
    buf_free(&once);
    buf_free(&twice);
    arena_free(&a);
}

static void check_invalid(size_t i, const char *file, struct str text)
{
    struct arena a;
    struct buf once;
    struct err e = {0};
    arena_init(&a, 64 * MiB);
    buf_init(&once, 8 * MiB);
    if (MESSAGES[i].recode(text, &a, &once, &e) == ERR_OK)
        fail_msg("invalid/%s/%s was read", MESSAGES[i].name, file);
    assert_true(e.code != ERR_NOMEM && e.code != ERR_BUG && strlen(e.msg) > 0);
    buf_free(&once);
    arena_free(&a);
}

static unsigned walk(const char *kind, size_t i, void (*check)(size_t, const char *, struct str))
{
    char folder[64], path[400];
    snprintf(folder, sizeof folder, "schemas/examples/%s/%s", kind, MESSAGES[i].name);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    unsigned n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!str_ends(str_from(entry->d_name), STR(".json")))
            continue;
        struct buf b;
        struct err e = {0};
        buf_init(&b, MiB);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_ok(io_read_file(path, &b, &e), &e);
        check(i, entry->d_name, buf_str(&b));
        buf_free(&b);
        n++;
    }
    closedir(dir);
    return n;
}

static void test_valid_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESSAGE; i++)
        assert_true(walk("valid", i, check_valid) >= 3);
}

static void test_invalid_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESSAGE; i++)
        assert_true(walk("invalid", i, check_invalid) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_examples),
        cmocka_unit_test(test_invalid_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
