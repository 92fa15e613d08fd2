/* Every message: what is written reads back the same, other versions are refused, what a hostile
 * sender may try is an error and not a crash. Whole examples are in examples_test.c. */
#include "schemas/control.h"
#include "schemas/decision.h"
#include "schemas/feedback.h"
#include "schemas/score.h"

#include "common/test.h"

#include <math.h>
#include <string.h>

struct fixture {
    struct arena arena;
    struct buf text, again;
    struct err e;
};

static int set_up(void **state)
{
    static struct fixture f;
    arena_init(&f.arena, 64 * MiB);
    buf_init(&f.text, 8 * MiB);
    buf_init(&f.again, 8 * MiB);
    f.e = (struct err){0};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->arena);
    buf_free(&f->text);
    buf_free(&f->again);
    return 0;
}

static struct output sample_output(void)
{
    static const struct output_message messages[] = {{STR("system"), STR("")},
                                                     {STR("user"), STR("h\xc3\xa9llo\n")}};
    static const int32_t ids[] = {0, 49151, 7};
    static const float logprobs[] = {-0.1f, 0.0f, -17.25f};
    struct output o = {.engine = STR("e1"),
                       .epoch = 17,
                       .seq = INT64_MAX,
                       .request_id = STR("r-1"),
                       .choice = 1,
                       .route = STR("default"),
                       .revision = 3,
                       .arm = STR("challenger"),
                       .experiment = STR("x1"),
                       .propensity = 0.05,
                       .stratum = STR("math"),
                       .unit = STR("u"),
                       .admission = 99,
                       .desired_version = 4,
                       .messages = messages,
                       .n_messages = 2,
                       .text = {"a\0b", 3},
                       .token_ids = ids,
                       .logprobs = logprobs,
                       .n_tokens = 3,
                       .finish_reason = STR("stop"),
                       .prompt_tokens = 10,
                       .cached_tokens = 4,
                       .completion_tokens = 3,
                       .queue_us = 1,
                       .ttft_us = 2,
                       .decode_us = 3,
                       .created_us = -5,
                       .model = STR("m"),
                       .weights = STR("w"),
                       .metadata = STR("{\"reference\":\"42\"}")};
    struct params client = {0};
    struct param_set revision = {0};
    client.stop[0] = STR("\n\n");
    client.n_stop = 1;
    params_resolve(&revision, &client, &o.effective);
    return o;
}

static void test_output_round_trip(void **state)
{
    struct fixture *f = *state;
    struct output o = sample_output(), back;
    assert_ok(output_encode(&o, &f->text, &f->e), &f->e);
    assert_true(str_starts(buf_str(&f->text), STR("{\"schema\":\"milepost.output.v1\",")));
    assert_ok(output_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    assert_ok(output_encode(&back, &f->again, &f->e), &f->e);
    assert_true(str_eq(buf_str(&f->text), buf_str(&f->again)));
    assert_int_equal(back.seq, INT64_MAX);
    assert_int_equal(back.n_tokens, 3);
    assert_int_equal(back.token_ids[1], 49151);
    assert_true(back.logprobs[0] == -0.1f && back.logprobs[2] == -17.25f);
    assert_true(back.propensity == 0.05 && back.created_us == -5);
    assert_int_equal(back.text.n, 3);
    assert_str(back.messages[1].content, "h\xc3\xa9llo\n");
    assert_str(back.effective.stop[0], "\n\n");
    assert_true(params_get(&back.effective, PARAM_MAX_NEW_TOKENS) == 256);
    assert_str(back.metadata, "{\"reference\":\"42\"}");
}

static void test_output_refuses(void **state)
{
    struct fixture *f = *state;
    struct output o = sample_output(), back;
    o.epoch = UINT64_MAX;
    assert_int_equal(output_encode(&o, &f->text, &f->e), ERR_INVALID);
    o.epoch = 1;
    o.metadata = STR("{broken");
    buf_reset(&f->text);
    assert_int_equal(output_encode(&o, &f->text, &f->e), ERR_INVALID);
    static const struct {
        const char *text;
        int want;
    } cases[] = {
        {"", ERR_INVALID},
        {"[]", ERR_INVALID},
        {"{}", ERR_INVALID},
        {"{\"schema\":\"milepost.output.v2\"}", ERR_UNSUPPORTED},
        {"{\"schema\":\"milepost.score.v1\"}", ERR_INVALID},
        {"{\"schema\":7}", ERR_INVALID},
        {"{\"schema\":\"milepost.output.v1\"}", ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(output_decode(str_from(cases[i].text), &f->arena, &back, &f->e),
                         cases[i].want);
}

static void test_output_key_alone(void **state)
{
    struct fixture *f = *state;
    struct output back;
    assert_ok(output_decode_key(STR("{\"schema\":\"milepost.output.v9\",\"engine\":\"e\","
                                    "\"epoch\":1,\"seq\":2,\"request_id\":\"r\",\"text\":5}"),
                                &f->arena, &back, &f->e),
              &f->e);
    assert_int_equal(back.seq, 2);
    assert_str(back.request_id, "r");
}

static void test_arena_limit_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct output o = sample_output(), back;
    assert_ok(output_encode(&o, &f->text, &f->e), &f->e);
    assert_ok(output_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    for (size_t limit = 0; limit < f->arena.used_bytes; limit++) {
        struct arena small;
        arena_init(&small, limit);
        assert_int_equal(output_decode(buf_str(&f->text), &small, &back, &f->e), ERR_NOMEM);
        arena_free(&small);
    }
}

/* Each byte of a valid record changed or the record cut: an error or a record, never a crash. */
static void test_output_mutations(void **state)
{
    struct fixture *f = *state;
    struct output o = sample_output(), back;
    assert_ok(output_encode(&o, &f->text, &f->e), &f->e);
    static const char replacements[] = "\"{}[],:0-e\\x";
    unsigned n_refused = 0;
    for (size_t i = 0; i < f->text.n; i++) {
        char kept = f->text.p[i];
        f->text.p[i] = replacements[i % (sizeof replacements - 1)];
        arena_reset(&f->arena);
        n_refused += output_decode(buf_str(&f->text), &f->arena, &back, &f->e) != ERR_OK;
        f->text.p[i] = kept;
        struct str cut = {f->text.p, i};
        assert_int_equal(output_decode(cut, &f->arena, &back, &f->e), ERR_INVALID);
    }
    assert_true(n_refused > f->text.n / 4);
}

static struct score sample_score(void)
{
    struct score s = {.verifier = STR("v"),
                      .check_set = STR("default"),
                      .version = STR("abc"),
                      .engine = STR("e1"),
                      .request_id = STR("r-1"),
                      .epoch = 1,
                      .seq = 2,
                      .is_scored = true,
                      .reward = 0.25,
                      .n_check = 2,
                      .duration_us = 7,
                      .output_json =
                          STR("{\"schema\":\"milepost.output.v1\",\"later\":[1, 2.50]}")};
    s.check[0] = (struct check_result){.id = STR("len"),
                                       .kind = STR("length"),
                                       .outcome = SCORE_PASS,
                                       .value = 1,
                                       .weight = 1,
                                       .is_gate = true,
                                       .duration_us = 3};
    s.check[1] = (struct check_result){.id = STR("num"),
                                       .kind = STR("number"),
                                       .outcome = SCORE_UNSCORED,
                                       .weight = 2,
                                       .reason = STR("no_reference")};
    return s;
}

static void test_score_round_trip(void **state)
{
    struct fixture *f = *state;
    struct score s = sample_score(), back;
    assert_ok(score_encode(&s, &f->text, &f->e), &f->e);
    assert_ok(score_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    assert_true(back.is_scored && back.reward == 0.25);
    assert_int_equal(back.n_check, 2);
    assert_true(back.check[0].outcome == SCORE_PASS && back.check[0].is_gate);
    assert_true(back.check[1].outcome == SCORE_UNSCORED && back.check[1].weight == 2);
    assert_str(back.check[1].reason, "no_reference");
    assert_str(back.output_json, "{\"schema\":\"milepost.output.v1\",\"later\":[1, 2.50]}");
    s.is_scored = false;
    s.reason = STR("all_unscored");
    buf_reset(&f->text);
    assert_ok(score_encode(&s, &f->text, &f->e), &f->e);
    assert_ok(score_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    assert_false(back.is_scored);
    assert_str(back.reason, "all_unscored");
}

static void test_score_refuses(void **state)
{
    struct fixture *f = *state;
    struct score s = sample_score();
    s.reward = 1.5;
    assert_int_equal(score_encode(&s, &f->text, &f->e), ERR_INVALID);
    s.reward = NAN;
    assert_int_equal(score_encode(&s, &f->text, &f->e), ERR_INVALID);
    s.reward = 1;
    s.output_json = STR("");
    assert_int_equal(score_encode(&s, &f->text, &f->e), ERR_INVALID);
}

static struct revision sample_revision(uint64_t number, double temperature)
{
    struct revision r = {.number = number,
                         .parent = number - 1,
                         .route = STR("default"),
                         .author = STR("operator:ann"),
                         .reason = STR("try"),
                         .created = {5}};
    assert_int_equal(params_put(&r.params.defaults, PARAM_TEMPERATURE, temperature, NULL), ERR_OK);
    assert_int_equal(params_put(&r.params.caps, PARAM_MAX_NEW_TOKENS, 64, NULL), ERR_OK);
    param_set_hash(&r.params, r.hash);
    return r;
}

static void test_desired_round_trip(void **state)
{
    struct fixture *f = *state;
    struct desired_route route = {
        .name = STR("default"), .experiment = STR("x1"), .salt = STR("s"), .n_arm = 2};
    route.arm[0] = (struct desired_arm){STR("champion"), 0.95, sample_revision(1, 0.7)};
    route.arm[1] = (struct desired_arm){STR("challenger"), 0.05, sample_revision(2, 0.5)};
    struct control c = {.type = CONTROL_DESIRED,
                        .desired = {.version = 9, .n_route = 1, .route = &route}},
                   back;
    assert_ok(control_encode(&c, &f->text, &f->e), &f->e);
    assert_ok(control_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    assert_int_equal(back.type, CONTROL_DESIRED);
    assert_int_equal(back.desired.version, 9);
    const struct desired_route *r = &back.desired.route[0];
    assert_int_equal(r->n_arm, 2);
    assert_true(r->arm[1].share == 0.05);
    assert_true(params_get(&r->arm[1].revision.params.defaults, PARAM_TEMPERATURE) == 0.5);
    assert_string_equal(r->arm[1].revision.hash, route.arm[1].revision.hash);
    route.arm[1].share = 0.5;
    buf_reset(&f->text);
    assert_ok(control_encode(&c, &f->text, &f->e), &f->e);
    assert_int_equal(control_decode(buf_str(&f->text), &f->arena, &back, &f->e), ERR_INVALID);
    assert_non_null(strstr(f->e.msg, "sum to 1.45"));
}

static void test_changed_revision_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct revision r = sample_revision(2, 0.5), back;
    json_t *v = revision_encode(&r);
    json_object_set_new(json_object_get(v, "params"), "temperature", json_real(1.8));
    struct json_at at = json_root(v);
    assert_int_equal(revision_decode(&at, &f->arena, &back, &f->e), ERR_CORRUPT);
    json_decref(v);
}

static void test_other_control_messages(void **state)
{
    struct fixture *f = *state;
    const struct control all[] = {
        {.type = CONTROL_HELLO,
         .hello = {.engine = STR("e"),
                   .epoch = 1,
                   .next_seq = 2,
                   .oldest_seq = 1,
                   .model = STR("m"),
                   .weights = STR("w"),
                   .version = STR("0.1"),
                   .desired_version = 3}},
        {.type = CONTROL_APPLIED, .applied = {STR("e"), 3}},
        {.type = CONTROL_COMMIT, .commit = {STR("e"), 1, 2, {0}}},
        {.type = CONTROL_HEARTBEAT,
         .heartbeat = {.engine = STR("e"),
                       .epoch = 1,
                       .running = 2,
                       .kv_usage = 0.5,
                       .tokens_per_second = 31.25}},
        {.type = CONTROL_COMMAND, .command = {7, STR("drain"), STR("")}},
        {.type = CONTROL_RESULT, .result = {7, true, STR("done")}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct control back;
        buf_reset(&f->text);
        buf_reset(&f->again);
        assert_ok(control_encode(&all[i], &f->text, &f->e), &f->e);
        assert_ok(control_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
        assert_int_equal(back.type, all[i].type);
        assert_ok(control_encode(&back, &f->again, &f->e), &f->e);
        assert_true(str_eq(buf_str(&f->text), buf_str(&f->again)));
    }
    struct control back;
    assert_int_equal(control_decode(STR("{\"schema\":\"milepost.control.v1\",\"type\":\"sudo\"}"),
                                    &f->arena, &back, &f->e),
                     ERR_INVALID);
    assert_non_null(strstr(f->e.msg, "hello, desired"));
}

static void test_feedback(void **state)
{
    struct fixture *f = *state;
    struct feedback fb, back;
    assert_ok(feedback_decode_request(STR("{\"request_id\":\"r\",\"thumb\":\"up\"}"), &f->arena,
                                      &fb, &f->e),
              &f->e);
    assert_true(fb.has_value && fb.value == 1);
    fb.engine = STR("e");
    fb.epoch = 1;
    fb.seq = 2;
    assert_ok(feedback_encode(&fb, &f->text, &f->e), &f->e);
    assert_ok(feedback_decode(buf_str(&f->text), &f->arena, &back, &f->e), &f->e);
    assert_true(back.has_value && back.value == 1 && back.seq == 2);
    static const char *const bad[] = {
        "{\"request_id\":\"r\"}",
        "{\"value\":1}",
        "{\"request_id\":\"r\",\"value\":1.5}",
        "{\"request_id\":\"r\",\"value\":true}",
        "{\"request_id\":\"r\",\"thumb\":\"sideways\"}",
        "{\"request_id\":\"r\",\"thumb\":\"up\",\"value\":0}",
        "{\"request_id\":\"\",\"value\":0}",
        "{\"request_id\":\"r\",\"value\":0,\"value\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(feedback_decode_request(str_from(bad[i]), &f->arena, &fb, &f->e),
                         ERR_INVALID);
}

static void test_decision_chain(void **state)
{
    struct fixture *f = *state;
    struct decision d = {.number = 1,
                         .route = STR("default"),
                         .action = STR("rollback"),
                         .actor = STR("policy:canary"),
                         .reason = STR("reward fell"),
                         .from_revision = 2,
                         .to_revision = 1,
                         .test = STR("rollback"),
                         .log_e = 3.1,
                         .log_threshold = 2.9957322735539909,
                         .n_blocks = 20,
                         .mean_champion = 0.8,
                         .mean_challenger = NAN,
                         .effect = -0.4,
                         .detail = STR("{\"k\":1}"),
                         .at = {123}},
                    back;
    assert_ok(decision_seal(&d, &f->e), &f->e);
    json_t *v = decision_encode(&d);
    assert_non_null(v);
    struct json_at at = json_root(v);
    assert_ok(decision_decode(&at, &f->arena, &back, &f->e), &f->e);
    assert_string_equal(back.hash, d.hash);
    assert_true(isnan(back.mean_challenger) && back.log_threshold == d.log_threshold);
    json_object_set_new(v, "log_e", json_real(9));
    assert_int_equal(decision_decode(&at, &f->arena, &back, &f->e), ERR_CORRUPT);
    json_decref(v);
    struct decision next = d;
    memcpy(next.previous_hash, d.hash, sizeof d.hash);
    assert_ok(decision_seal(&next, &f->e), &f->e);
    assert_string_not_equal(next.hash, d.hash);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_output_round_trip),
        CASE(test_output_refuses),
        CASE(test_output_key_alone),
        CASE(test_arena_limit_is_an_error),
        CASE(test_output_mutations),
        CASE(test_score_round_trip),
        CASE(test_score_refuses),
        CASE(test_desired_round_trip),
        CASE(test_changed_revision_is_noticed),
        CASE(test_other_control_messages),
        CASE(test_feedback),
        CASE(test_decision_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
