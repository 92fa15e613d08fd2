/* Answers of programs: only the three forms, only for the question that was asked; which block of
 * an answer is the code. */
#include "verifier/checks/program.h"
#include "verifier/check_harness.h"

#include <stdio.h>

static void reads(const char *answer, enum score_outcome outcome, double value, const char *reason,
                  bool broken)
{
    struct output o = {.request_id = STR("r1"), .choice = 2};
    struct check_item item = {.output = &o};
    bool is_broken = !broken;
    struct check_verdict v = program_read(&item, str_from(answer), &is_broken);
    if (v.outcome != outcome || v.value != value || is_broken != broken)
        fail_msg("%s: outcome %d value %g broken %d", answer, v.outcome, v.value, is_broken);
    assert_string_equal(v.reason, reason);
}

static void test_answers(void **state)
{
    (void)state;
    reads("{\"id\":\"r1/2\",\"pass\":true}", SCORE_PASS, 1, "", false);
    reads("{\"id\":\"r1/2\",\"pass\":false,\"reason\":\"wrong\"}", SCORE_FAIL, 0, "wrong", false);
    reads("{\"id\":\"r1/2\",\"pass\":false,\"reason\":\"my own\"}", SCORE_FAIL, 0, "program",
          false);
    reads("{\"id\":\"r1/2\",\"score\":0.25}", SCORE_VALUE, 0.25, "", false);
    reads("{\"id\":\"r1/2\",\"score\":1}", SCORE_PASS, 1, "", false);
    reads("{\"id\":\"r1/2\",\"unscored\":\"no_reference\"}", SCORE_UNSCORED, 0, "no_reference",
          false);
    static const char *const JUNK[] = {
        "",
        "ok",
        "{\"id\":\"r1/2\"}",
        "{\"pass\":true}",
        "{\"id\":\"r1/1\",\"pass\":true}",
        "{\"id\":\"r1/2\",\"pass\":1}",
        "{\"id\":\"r1/2\",\"score\":1.5}",
        "{\"id\":\"r1/2\",\"score\":\"1\"}",
        "{\"id\":\"r1/2\",\"score\":1,\"pass\":true}",
        "{\"id\":\"r1/2\",\"unscored\":1}",
    };
    for (size_t i = 0; i < sizeof JUNK / sizeof *JUNK; i++)
        reads(JUNK[i], SCORE_UNSCORED, 0, "malformed_answer", true);
}

/* The longest request id that the codec takes. */
static void test_long_id(void **state)
{
    (void)state;
    struct arena a;
    bool is_broken;
    struct str id = harness_repeat("x", 256);
    struct output o = {.request_id = id, .choice = UINT32_MAX};
    struct check_item item = {.output = &o};
    arena_init(&a, MiB);
    struct str answer =
        arena_printf(&a, "{\"id\":\"" STR_FMT "\",\"pass\":true}", STR_ARG(program_id(&o, &a)));
    assert_int_equal(program_read(&item, answer, &is_broken).outcome, SCORE_PASS);
    assert_false(is_broken);
    arena_free(&a);
    free((char *)id.p);
}

static void code_is(const char *params, const char *text, const char *wanted)
{
    struct err e;
    struct arena a;
    json_t *p, *q;
    void *state;
    struct str question;
    struct check_verdict v;
    struct output o = {.prompt = STR("P"), .text = str_from(text), .request_id = STR("r")};
    assert_ok(json_parse(str_from(params), 0, &p, &e), &e);
    struct json_at at = json_root(p);
    assert_ok(check_find(STR("code"))->open(&state, &at, &e), &e);
    arena_init(&a, MiB);
    struct check_item item = {.output = &o, .arena = &a};
    bool is_asked = check_find(STR("code"))->ask(state, &item, &question, &v);
    assert_int_equal(is_asked, wanted != NULL);
    if (is_asked) {
        assert_ok(json_parse(question, 0, &q, &e), &e);
        assert_string_equal(json_string_value(json_object_get(q, "code")), wanted);
        json_decref(q);
    } else {
        assert_string_equal(v.reason, "no_code");
    }
    check_find(STR("code"))->close(state);
    json_decref(p);
    arena_free(&a);
}

#define CODE(more) "{\"program\":[\"/bin/true\"],\"tests\":\"t\"" more "}"

static void test_blocks(void **state)
{
    (void)state;
    static const char TWO[] = "One:\n```python\na\n```\ntwo:\n```\nb\nc\n```\nend";
    code_is(CODE(""), TWO, "b\nc\n");
    code_is(CODE(",\"block\":\"first\""), TWO, "a\n");
    code_is(CODE(",\"block\":\"whole\""), "```x```", "```x```");
    code_is(CODE(""), "x = 1", "x = 1");
    code_is(CODE(""), "```py\nx = 1", "x = 1");
    code_is(CODE(""), "```", NULL);
    code_is(CODE(""), " \n", NULL);
    code_is(CODE(",\"prepend_prompt\":true"), "x", "Px");
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("command", "{}", "program: missing");
    harness_refuses("command", "{\"program\":[\"x\"],\"workers\":0}", "workers");
    harness_refuses("code", "{\"program\":[\"python3\"]}", "absolute path");
    harness_refuses("code", "{\"program\":[\"/bin/true\"],\"readable\":[\"etc\"]}", "absolute");
}

static void content_is(const char *path, char out[65])
{
    struct err e;
    struct str text = str_from(path);
    const struct cfg_text_list argv = {&text, 1};
    assert_ok(program_content(&argv, out, &e), &e);
}

static void test_content(void **state)
{
    (void)state;
    char path[] = "/tmp/milepost_programXXXXXX", before[65], after[65];
    FILE *f = fdopen(mkstemp(path), "w");
    fputs("one", f);
    fflush(f);
    content_is(path, before);
    fputs("two", f);
    fclose(f);
    content_is(path, after);
    assert_string_not_equal(before, after);
    remove(path);
    content_is(path, after); /* not a file: its name alone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_long_id),
        cmocka_unit_test(test_blocks),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
