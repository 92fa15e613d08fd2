/* One frame in, one message out: scores, feedback as it came, broken frames answered by their key.
 */
#include "common/test.h"
#include "schemas/feedback.h"
#include "verifier/judge.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct check_config check;
    struct check_set *set;
    struct judge judge;
    struct arena arena;
    struct score score;
    struct buf frame, out;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct route_config route = {.name = STR("default"), .checks = {&f->check, 1}};
    f->check = (struct check_config){.id = STR("words"),
                                     .kind = STR("length"),
                                     .params = STR("{\"unit\":\"words\",\"max\":3}"),
                                     .weight = 1,
                                     .timeout_ms = 1000};
    assert_ok(check_set_open(&f->set, &route, &f->e), &f->e);
    f->judge =
        (struct judge){.verifier = STR("v1"), .set = &f->set, .n_set = 1, .clock = &CLOCK_REAL};
    arena_init(&f->arena, 64 * MiB);
    buf_init(&f->frame, 16 * MiB);
    buf_init(&f->out, 16 * MiB);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    check_set_close(f->set);
    arena_free(&f->arena);
    buf_free(&f->frame);
    buf_free(&f->out);
    free(f);
    return 0;
}

static struct output sample(const char *text, const char *route)
{
    return (struct output){.engine = STR("e1"),
                           .epoch = 5,
                           .seq = 9,
                           .request_id = STR("req"),
                           .route = str_from(route),
                           .revision = 1,
                           .arm = STR("champion"),
                           .propensity = 1,
                           .unit = STR("u"),
                           .prompt = STR("p"),
                           .text = str_from(text),
                           .finish_reason = STR("stop"),
                           .model = STR("m"),
                           .weights = STR("w")};
}

static enum judged judge(struct fixture *f)
{
    return judge_frame(&f->judge, buf_str(&f->frame), &f->arena, &f->score, &f->out, &f->e);
}

static void decodes(struct fixture *f, struct score *s)
{
    assert_ok(score_decode(buf_str(&f->out), &f->arena, s, &f->e), &f->e);
    assert_str(s->verifier, "v1");
    assert_str(s->engine, "e1");
    assert_str(s->request_id, "req");
    assert_true(s->epoch == 5 && s->seq == 9);
}

static void test_score(void **state)
{
    struct fixture *f = *state;
    struct output o = sample("one two", "default"), inside;
    struct score s;
    assert_ok(output_encode(&o, &f->frame, &f->e), &f->e);
    assert_int_equal(judge(f), JUDGED_SCORE);
    decodes(f, &s);
    assert_true(s.is_scored && s.reward == 1 && s.n_check == 1);
    assert_str(s.check_set, "default");
    assert_str(s.version, check_set_version(f->set));
    assert_ok(output_decode(s.output_json, &f->arena, &inside, &f->e), &f->e);
    assert_str(inside.text, "one two");
}

static void test_unknown_route_is_unscored(void **state)
{
    struct fixture *f = *state;
    struct output o = sample("one", "gone");
    struct score s;
    assert_ok(output_encode(&o, &f->frame, &f->e), &f->e);
    assert_int_equal(judge(f), JUDGED_SCORE);
    decodes(f, &s);
    assert_false(s.is_scored);
    assert_str(s.reason, "unknown_route");
}

static void test_malformed_with_key_is_answered(void **state)
{
    struct fixture *f = *state;
    struct score s;
    buf_put_c(&f->frame,
              "{\"schema\":\"" OUTPUT_SCHEMA "\",\"engine\":\"e1\",\"epoch\":5,\"seq\":9,"
              "\"request_id\":\"req\",\"text\":7}");
    assert_int_equal(judge(f), JUDGED_MALFORMED);
    decodes(f, &s);
    assert_false(s.is_scored);
    assert_str(s.reason, "malformed");
    assert_true(str_eq(s.output_json, buf_str(&f->frame)));
}

static void test_garbage_is_dropped(void **state)
{
    struct fixture *f = *state;
    static const char *const frames[] = {"",
                                         "x",
                                         "{}",
                                         "[1]",
                                         "{\"schema\":\"" OUTPUT_SCHEMA "\"}",
                                         "{\"schema\":\"" FEEDBACK_SCHEMA "\"}",
                                         "\xFF"};
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        buf_reset(&f->frame);
        buf_put_c(&f->frame, frames[i]);
        assert_int_equal(judge(f), JUDGED_DROPPED);
        assert_int_equal(f->out.n, 0);
        assert_true(f->e.msg[0] != '\0');
    }
}

static void test_feedback_passes_unchanged(void **state)
{
    struct fixture *f = *state;
    struct feedback b = {.engine = STR("e1"),
                         .epoch = 5,
                         .seq = 10,
                         .request_id = STR("req"),
                         .has_value = true,
                         .value = 1};
    assert_ok(feedback_encode(&b, &f->frame, &f->e), &f->e);
    assert_int_equal(judge(f), JUDGED_FEEDBACK);
    assert_true(str_eq(buf_str(&f->out), buf_str(&f->frame)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_score, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_route_is_unscored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed_with_key_is_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_feedback_passes_unchanged, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
