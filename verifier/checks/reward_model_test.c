/* What each service is asked, which number its answer gives, how it is mapped, what is refused. The
 * answers are shaped as the services' documentation shows them. */
#include "verifier/check_harness.h"

#include <math.h>

#define URL "\"url\":\"http://127.0.0.1:9/x\""

struct opened {
    const struct check_ops *ops;
    json_t *params;
    void *state;
    struct arena arena;
};

static struct opened open_check(const char *params)
{
    struct err e = {0};
    struct opened o = {.ops = check_find(STR("reward_model"))};
    assert_ok(json_parse(str_from(params), 0, &o.params, &e), &e);
    struct json_at at = json_root(o.params);
    assert_ok(o.ops->open(&o.state, &at, &e), &e);
    arena_init(&o.arena, 16 * MiB);
    return o;
}

static void close_check(struct opened *o)
{
    o->ops->close(o->state);
    json_decref(o->params);
    arena_free(&o->arena);
}

static void asks(const char *params, const struct output *out, const char *metadata,
                 const char *wanted)
{
    struct opened o = open_check(params);
    struct err e;
    json_t *m = NULL, *want = NULL, *got = NULL;
    struct str question;
    struct check_verdict v;
    if (metadata)
        assert_ok(json_parse(str_from(metadata), 0, &m, &e), &e);
    struct check_item item = {.output = out, .metadata = m, .arena = &o.arena};
    assert_true(o.ops->ask(o.state, &item, &question, &v));
    assert_ok(json_parse(question, 0, &got, &e), &e);
    assert_ok(json_parse(str_from(wanted), 0, &want, &e), &e);
    if (!json_equal(got, want))
        fail_msg("asked " STR_FMT, STR_ARG(question));
    json_decref(m);
    json_decref(want);
    json_decref(got);
    close_check(&o);
}

/* value NaN: unscored with this reason; broken: counts against the service. */
static void reads(const char *params, const char *answer, double value, const char *reason,
                  bool broken)
{
    struct opened o = open_check(params);
    struct check_item item = {.arena = &o.arena};
    bool is_broken = !broken;
    struct check_verdict v = o.ops->read(o.state, &item, str_from(answer), &is_broken);
    if (isnan(value) ? v.outcome != SCORE_UNSCORED
                     : v.outcome == SCORE_UNSCORED || fabs(v.value - value) > 1e-9)
        fail_msg("%s %s: outcome %d value %g reason %s", params, answer, v.outcome, v.value,
                 v.reason);
    assert_string_equal(v.reason, reason);
    assert_int_equal(is_broken, broken);
    close_check(&o);
}

static const struct output_message CHAT[] = {{{"system", 6}, {"Be short.", 9}},
                                             {{"user", 4}, {"2+2?", 4}}};

static void test_questions(void **state)
{
    (void)state;
    struct output o = {.prompt = STR("2+2?"), .text = STR("4 {prompt}")};
    struct output chat = {.messages = CHAT, .n_messages = 2, .text = STR("4")};
    asks("{" URL ",\"api\":\"sglang\",\"model\":\"rm\"}", &o, NULL,
         "{\"model\":\"rm\",\"text\":\"2+2?\\n\\n4 {prompt}\"}");
    asks("{" URL ",\"api\":\"vllm\",\"model\":\"rm\",\"template\":\"Q{prompt}A{response}\"}", &o,
         NULL, "{\"model\":\"rm\",\"input\":\"Q2+2?A4 {prompt}\"}");
    asks("{" URL ",\"api\":\"tei\"}", &chat, NULL,
         "{\"inputs\":\"system: Be short.\\nuser: 2+2?\\n\\n\\n4\",\"raw_scores\":true,"
         "\"truncate\":true}");
    asks("{" URL ",\"api\":\"remote_rm\"}", &o, "{\"reference\":[4]}",
         "{\"prompt\":\"2+2?\",\"response\":\"4 {prompt}\",\"label\":[4]}");
    asks("{" URL ",\"api\":\"remote_rm\"}", &o, NULL,
         "{\"prompt\":\"2+2?\",\"response\":\"4 {prompt}\",\"label\":null}");
    asks("{" URL ",\"api\":\"engine\",\"model\":\"m\",\"template\":\"{response}?\"}", &chat, NULL,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"4?\"}],\"temperature\":0,"
         "\"max_tokens\":1,\"logprobs\":true,\"top_logprobs\":20}");
}

#define SGLANG "{" URL ",\"api\":\"sglang\",\"normalise\":\"sigmoid\"}"
#define VLLM   "{" URL ",\"api\":\"vllm\",\"index\":1}"
#define TEI    "{" URL ",\"api\":\"tei\",\"label\":\"LABEL_1\"}"
#define RM     "{" URL ",\"api\":\"remote_rm\"}"
#define ENGINE "{" URL ",\"api\":\"engine\"}"
#define TOP(list)                                                                                  \
    "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"x\",\"top_logprobs\":[" list "]}]}}]}"

static void test_answers(void **state)
{
    (void)state;
    const double half = 0.5;
    reads(SGLANG, "[{\"embedding\":[0.0],\"meta_info\":{}}]", half, "", false);
    reads(SGLANG, "{\"embedding\":[1e6]}", 1, "", false);
    reads(VLLM, "{\"data\":[{\"probs\":[0.25,0.75]}]}", 0.75, "", false);
    reads(TEI, "[{\"label\":\"LABEL_0\",\"score\":0.9},{\"label\":\"LABEL_1\",\"score\":0.5}]",
          half, "", false);
    reads("{" URL ",\"api\":\"tei\"}", "[[{\"label\":\"LABEL_0\",\"score\":0.5}]]", half, "",
          false);
    reads(RM, "0.5", half, "", false);
    reads(RM, "1", 1, "", false);
    reads("{" URL ",\"api\":\"remote_rm\",\"key\":\"score\"}", "{\"score\":0.5}", half, "", false);
    reads(ENGINE, TOP("{\"token\":\" Yes\",\"logprob\":-1},{\"token\":\"no\",\"logprob\":-1}"),
          half, "", false);
}

static void test_wrong_answers(void **state)
{
    (void)state;
    static const char *const JUNK[] = {"",
                                       "{",
                                       "null",
                                       "[]",
                                       "\"1\"",
                                       "{\"data\":[]}",
                                       "[{\"embedding\":[\"1\"]}]",
                                       "[{\"embedding\":[]}]",
                                       "{\"error\":\"model not loaded\"}"};
    static const char *const KINDS[] = {SGLANG, VLLM, TEI, RM, ENGINE};
    for (size_t i = 0; i < sizeof JUNK / sizeof *JUNK; i++)
        for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++)
            reads(KINDS[k], JUNK[i], NAN, "malformed_answer", true);
    /* Which of several classes counts must be said. */
    reads("{" URL ",\"api\":\"tei\"}",
          "[{\"label\":\"a\",\"score\":0.9},{\"label\":\"b\",\"score\":0.1}]", NAN,
          "malformed_answer", true);
    reads(RM, "7.5", NAN, "out_of_range", false);
    reads(ENGINE, TOP("{\"token\":\"Maybe\",\"logprob\":-1}"), NAN, "out_of_range", false);
}

static void test_maps(void **state)
{
    (void)state;
    reads("{" URL ",\"api\":\"remote_rm\",\"normalise\":\"sigmoid\",\"mean\":2,\"deviation\":3}",
          "5", 1 / (1 + exp(-1)), "", false);
    reads("{" URL ",\"api\":\"remote_rm\",\"normalise\":\"min_max\",\"low\":-2,\"high\":6}", "0",
          0.25, "", false);
    reads("{" URL ",\"api\":\"remote_rm\",\"normalise\":\"min_max\",\"low\":-2,\"high\":6}", "9", 1,
          "", false);
    reads("{" URL ",\"api\":\"remote_rm\",\"normalise\":\"z_score\",\"mean\":1,\"deviation\":2}",
          "3", 0.8413447460685429, "", false); /* standard normal at 1 */
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("reward_model", "{}", "url");
    harness_refuses("reward_model", "{\"url\":\"file:///etc/passwd\"}", "http or https");
    harness_refuses("reward_model", "{" URL ",\"api\":\"grpc\"}", "allowed: sglang, vllm");
    harness_refuses("reward_model", "{" URL ",\"template\":\"{prompt}\"}", "{response}");
    harness_refuses("reward_model", "{" URL ",\"normalise\":\"min_max\",\"low\":1,\"high\":1}",
                    "low < high");
    harness_refuses("reward_model", "{" URL ",\"deviation\":0}", "deviation");
    harness_refuses("reward_model", "{" URL ",\"key_env\":\"MILEPOST_NO_SUCH\"}", "is not set");
    harness_refuses("reward_model", "{" URL ",\"self_test\":{\"better\":\"x\"}}", "worse");
    harness_refuses("reward_model", "{" URL ",\"concurency\":2}", "unknown key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions),     cmocka_unit_test(test_answers),
        cmocka_unit_test(test_wrong_answers), cmocka_unit_test(test_maps),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
