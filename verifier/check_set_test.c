/* Opening refuses what is wrong and says where; versions follow content; `when`; errors and ends.
 */
#include "common/hash.h"
#include "common/test.h"
#include "verifier/check_set.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 40 };

struct fixture {
    struct check_config check[MOST];
    struct route_config route;
    struct check_set *set;
    struct arena arena;
    struct score score;
};

static struct check_config check(const char *id, const char *kind, const char *params)
{
    return (struct check_config){.id = str_from(id),
                                 .kind = str_from(kind),
                                 .params = str_from(params),
                                 .weight = 1,
                                 .timeout_ms = 1000};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->route.name = STR("r");
    f->route.checks.item = f->check;
    arena_init(&f->arena, MiB);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    check_set_close(f->set);
    arena_free(&f->arena);
    free(f);
    return 0;
}

static void open_set(struct fixture *f, uint32_t n)
{
    struct err e = {0};
    check_set_close(f->set);
    f->route.checks.n = n;
    assert_ok(check_set_open(&f->set, &f->route, &e), &e);
}

static void refuses(struct fixture *f, uint32_t n, const char *words)
{
    struct err e = {0};
    struct check_set *set;
    f->route.checks.n = n;
    assert_int_equal(check_set_open(&set, &f->route, &e), ERR_INVALID);
    assert_null(set);
    if (!strstr(e.msg, words))
        fail_msg("'%s' does not say '%s'", e.msg, words);
}

static const struct score *run(struct fixture *f, const char *text, const char *metadata)
{
    struct output o = {.text = str_from(text),
                       .metadata = str_from(metadata),
                       .finish_reason = STR("stop"),
                       .request_id = STR("q"),
                       .seq = 3};
    check_set_run(f->set, &o, &f->arena, &f->score);
    return &f->score;
}

static void test_refusals_name_the_place(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("a", "length", "{}");
    f->check[1] = check("b", "lenght", "{}");
    refuses(f, 2, "routes[r].checks[1] (b): kind: found 'lenght', allowed: length, finish_reason");
    f->check[1] = check("a", "length", "{}");
    refuses(f, 2, "id: found 'a' twice");
    f->check[1] = check("b", "length", "{\"max\":\"many\"}");
    refuses(f, 2, "routes[r].checks[1] (b)");
    f->check[1] = check("b", "length", "{\"when\":3}");
    refuses(f, 2, "when: found");
    f->check[1] = check("b", "length", "{\"when\":{\"kind\":{}}}");
    refuses(f, 2, "when.kind: found");
    refuses(f, SCORE_MAX_CHECKS + 1, "checks: found 33, allowed: at most 32");
}

static void test_version_follows_content(void **state)
{
    struct fixture *f = *state;
    char first[80];
    f->check[0] = check("a", "length", "{\"min\":1,\"max\":3}");
    open_set(f, 1);
    snprintf(first, sizeof first, "%s", check_set_version(f->set));
    assert_int_equal(strlen(first), 64);
    f->check[0].params = STR("{ \"max\": 3, \"min\": 1 }");
    open_set(f, 1);
    assert_string_equal(check_set_version(f->set), first);
    f->check[0].weight = 2;
    open_set(f, 1);
    assert_string_not_equal(check_set_version(f->set), first);
    f->check[0].weight = 1;
    f->check[0].params = STR("{\"max\":3,\"min\":1,\"when\":{\"kind\":\"x\"}}");
    open_set(f, 1);
    assert_string_not_equal(check_set_version(f->set), first);
}

static void test_when_leaves_out_what_does_not_apply(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("num", "number", "{\"when\":{\"kind\":\"sum\"}}");
    f->check[1] = check("one", "exact", "{\"when\":{\"kind\":[\"choice\",\"yesno\"]}}");
    open_set(f, 2);
    const struct score *s = run(f, "42", "{\"kind\":\"sum\",\"reference\":42}");
    assert_true(s->is_scored && s->reward == 1 && s->n_check == 1);
    assert_str(s->check[0].id, "num");
    s = run(f, "b", "{\"kind\":\"choice\",\"reference\":\"a\"}");
    assert_true(s->is_scored && s->reward == 0 && s->n_check == 1);
    s = run(f, "b", "{\"kind\":\"poem\"}");
    assert_true(!s->is_scored && s->n_check == 0);
    assert_str(s->reason, "no_checks");
}

static void test_on_error_and_missing_reference(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("num", "number", "{}");
    open_set(f, 1);
    const struct score *s = run(f, "42", "");
    assert_false(s->is_scored);
    assert_str(s->reason, "no_reference");
    assert_str(s->request_id, "q");
    f->check[0].on_error = 1;
    open_set(f, 1);
    s = run(f, "42", "");
    assert_true(s->is_scored && s->reward == 0);
    assert_str(s->check[0].reason, "no_reference");
}

static void test_cancelled_is_unscored(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("len", "length", "{\"unit\":\"chars\"}");
    open_set(f, 1);
    struct output o = {.text = STR("x"), .finish_reason = STR("cancelled")};
    check_set_run(f->set, &o, &f->arena, &f->score);
    assert_false(f->score.is_scored);
    assert_str(f->score.reason, "cancelled");
}

/* A check of set b judges its share of the outputs, the same ones each time, and is no part of the
 * reward; whether a set has one is part of its version. */
static void test_set_b_judges_a_sample(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("a", "length", "{\"unit\":\"chars\",\"min\":1}");
    f->check[1] = check("b", "contains", "{\"all\":[\"never\"]}");
    f->check[1].sample = 0.1;
    open_set(f, 2);
    char version[SHA256_HEX];
    snprintf(version, sizeof version, "%s", check_set_version(f->set));
    f->check[1].set = CHECK_SET_B;
    open_set(f, 2);
    assert_string_not_equal(version, check_set_version(f->set));
    int n_sampled = 0;
    for (int i = 0; i < 4000; i++) {
        char id[16];
        snprintf(id, sizeof id, "r%d", i / 2); /* each twice */
        struct output o = {
            .request_id = str_from(id), .text = STR("text"), .finish_reason = STR("stop")};
        arena_reset(&f->arena);
        check_set_run(f->set, &o, &f->arena, &f->score);
        assert_true(f->score.is_scored && f->score.reward == 1);
        assert_int_equal(f->score.n_check, 1 + f->score.is_scored_b);
        n_sampled += f->score.is_scored_b ? (i % 2 ? 1 : 1000000) : 0;
        if (f->score.is_scored_b)
            assert_true(f->score.reward_b == 0);
    }
    assert_int_equal(n_sampled / 1000000, n_sampled % 1000000);
    assert_in_range(n_sampled % 1000000, 150, 250); /* of 2,000 */
}

static char *long_text(struct fixture *f, size_t n)
{
    char *text = arena_alloc(&f->arena, n + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 7 == 6 ? ' ' : (char)('a' + i * i % 26);
    text[n] = '\0';
    return text;
}

static void test_a_heavy_run_goes_on_elsewhere(void **state)
{
    struct fixture *f = *state;
    f->check[0] = check("first", "length", "{\"min\": 1, \"unit\": \"words\"}");
    for (uint32_t i = 1; i < 9; i++)
        f->check[i] = check(&"abcdefgh"[i - 1], "repetition", "{}");
    open_set(f, 9);
    arena_free(&f->arena);
    arena_init(&f->arena, 256 * MiB);
    struct output o = {.text = str_from(long_text(f, 900000)),
                       .finish_reason = STR("stop"),
                       .request_id = STR("q")};
    struct score whole, sliced;
    check_set_run(f->set, &o, &f->arena, &whole);
    struct check_run run = {.set = f->set,
                            .output = &o,
                            .arena = &f->arena,
                            .score = &sliced,
                            .clock = &CLOCK_REAL,
                            .refusal = "not_asked",
                            .slice_us = 1};
    assert_true(check_set_begin(&run));
    assert_true(run.is_heavy);
    assert_in_range(sliced.n_check, 1, 8); /* stopped between two checks */
    assert_true(check_set_resume(&run));
    assert_false(run.is_heavy);
    check_set_end(&run);
    assert_int_equal(sliced.n_check, whole.n_check);
    for (uint32_t i = 0; i < whole.n_check; i++) {
        assert_int_equal(sliced.check[i].outcome, whole.check[i].outcome);
        assert_true(sliced.check[i].value == whole.check[i].value);
    }
    assert_true(sliced.reward == whole.reward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusals_name_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_follows_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_when_leaves_out_what_does_not_apply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_on_error_and_missing_reference, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_is_unscored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_set_b_judges_a_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_heavy_run_goes_on_elsewhere, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
