/* What the doctor finds, by pairs of texts. */
#include "common/test.h"

#include "common/buf.h"
#include "controller/cli/diagnosis.h"

#include <string.h>

struct fixture {
    struct arena arena;
    struct looks looks;
    struct diagnosis found;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.looks = {.seconds = 10}};
    arena_init(&f.arena, MiB);
    for (int p = 0; p < PROCESSES; p++)
        f.looks.before.text[p] = f.looks.after.text[p] = STR("");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->arena);
    return 0;
}

static const struct finding *find(struct fixture *f, const char *layer)
{
    diagnose(&f->looks, &f->arena, &f->found);
    for (uint32_t i = 0; i < f->found.n; i++)
        if (strcmp(f->found.finding[i].layer, layer) == 0)
            return &f->found.finding[i];
    return NULL;
}

/* The layer's health, a part of what was found, and of the advice. */
static void expect(struct fixture *f, const char *layer, enum health health, const char *what,
                   const char *advice)
{
    const struct finding *d = find(f, layer);
    assert_non_null(d);
    if (d->health != health || !strstr(d->what, what) || !strstr(d->advice, advice) ||
        (*d->advice == '\0') != (health == HEALTH_OK))
        fail_msg("%s: %s, '%s', '%s'", layer, health_name(d->health), d->what, d->advice);
}

static void test_nobody_answers(void **state)
{
    struct fixture *f = *state;
    f->looks.before.text[PROCESS_VERIFIER] = (struct str){0};
    f->looks.after.text[PROCESS_CONTROLLER] = (struct str){0};
    expect(f, "verifier", HEALTH_BAD, "does not answer", "milepost up");
    expect(f, "controller", HEALTH_BAD, "does not answer", "milepost up");
    expect(f, "device", HEALTH_OK, "idle", "");
    assert_int_equal(diagnosis_worst(&f->found), HEALTH_BAD);
    f->looks.is_alone = true; /* then the loop is nobody's */
    assert_null(find(f, "verifier"));
    assert_null(find(f, "outbox"));
    assert_int_equal(diagnosis_worst(&f->found), HEALTH_OK);
}

static void test_device(void **state)
{
    struct fixture *f = *state;
    struct str *after = &f->looks.after.text[PROCESS_ENGINE];
    f->looks.before.text[PROCESS_ENGINE] =
        STR("milepost_step_seconds_count 100\nmilepost_step_seconds_sum 50\n");
    *after = STR("milepost_step_seconds_count 1100\nmilepost_step_seconds_sum 58\n"
                 "milepost_step_tokens_sum 4000\nmilepost_generation_tokens_total 3000\n"
                 "milepost_draft_tokens_total 200\nmilepost_draft_accepted_tokens_total 150\n");
    expect(f, "device", HEALTH_OK, "computes 80% of the time: 100 steps/s of 8.0 ms and 4.0 tokens",
           "");
    expect(f, "guesses", HEALTH_OK, "200 tokens guessed ahead, 75% of them right", "");
    *after = STR("milepost_step_seconds_count 1100\nmilepost_step_seconds_sum 59.9\n"
                 "milepost_requests_waiting 3\n");
    expect(f, "device", HEALTH_WARN, "3 waiting", "wait for the device");
    *after = STR("milepost_step_seconds_count 1100\nmilepost_step_seconds_sum 52\n"
                 "milepost_requests_waiting 3\n");
    expect(f, "device", HEALTH_WARN, "3 waiting", "while the device idles");
    *after = STR("milepost_step_seconds_count 100\nmilepost_requests_running 2\n");
    expect(f, "device", HEALTH_BAD, "no step ended", "hangs");
    *after = STR("milepost_step_seconds_count 5\nmilepost_step_seconds_sum 1\n"); /* began anew */
    expect(f, "device", HEALTH_OK, "steps/s of 200.0 ms", "");
}

static void test_ranks_and_kv_cache(void **state)
{
    struct fixture *f = *state;
    struct str *after = &f->looks.after.text[PROCESS_ENGINE];
    expect(f, "ranks", HEALTH_OK, "nothing exchanged", "");
    expect(f, "kv cache", HEALTH_OK, "0% held", "");
    *after = STR("milepost_step_seconds_sum 8\nmilepost_comm_seconds_total 4\n"
                 "milepost_preemptions_total 7\nmilepost_kv_cache_usage_ratio 0.97\n");
    expect(f, "ranks", HEALTH_WARN, "50%", "tp_size");
    expect(f, "kv cache", HEALTH_WARN, "97% held by requests; 7 preempted", "kv_memory_mib");
    *after = STR("milepost_step_seconds_sum 8\nmilepost_comm_seconds_total 1\n"
                 "milepost_prefix_cache_evicted_blocks_total 9\n"
                 "milepost_prefix_cache_query_tokens_total 100\n"
                 "milepost_prefix_cache_hit_tokens_total 10\n");
    expect(f, "ranks", HEALTH_OK, "12%", "");
    expect(f, "kv cache", HEALTH_WARN, "10 of 100", "forgotten before");
}

static void test_loop(void **state)
{
    struct fixture *f = *state;
    f->looks.after.text[PROCESS_ENGINE] = STR("milepost_outbox_rows 5000\n");
    f->looks.after.text[PROCESS_VERIFIER] =
        STR("milepost_verify_received_total 10\nmilepost_queue_depth 2\n"
            "milepost_verify_unscored_total{reason=\"no_reference\"} 6\n");
    f->looks.after.text[PROCESS_CONTROLLER] =
        STR("milepost_desired_version 4\nmilepost_engine_applied_version{engine=\"a\"} 4\n"
            "milepost_engine_applied_version{engine=\"b\"} 3\n");
    expect(f, "outbox", HEALTH_WARN, "5000 outputs", "nobody commits");
    expect(f, "verifier", HEALTH_WARN, "6 unscored mostly of no_reference, 2 held", "scores");
    expect(f, "controller", HEALTH_WARN, "0 commits failed", "does not apply");
    f->looks.before.text[PROCESS_ENGINE] = STR("milepost_outbox_rows 6000\n");
    expect(f, "outbox", HEALTH_OK, "none dropped", "");
    f->looks.after.text[PROCESS_ENGINE] = STR("milepost_outbox_dropped_total 1\n");
    f->looks.after.text[PROCESS_VERIFIER] = STR("milepost_remote_breaker_open{check=\"r/m\"} 1\n");
    f->looks.after.text[PROCESS_CONTROLLER] = STR("milepost_commit_failures_total 2\n");
    expect(f, "outbox", HEALTH_BAD, "1 outputs dropped", "lost to the loop");
    expect(f, "verifier", HEALTH_WARN, "0 outputs received", "does not answer");
    expect(f, "controller", HEALTH_BAD, "2 commits failed", "not committed");
    f->looks.after.text[PROCESS_CONTROLLER] = STR("milepost_kill_switch 1\n");
    expect(f, "controller", HEALTH_WARN, "", "kill switch");
    f->looks.after.text[PROCESS_CONTROLLER] = STR("milepost_oldest_unscored_seconds 100\n");
    expect(f, "controller", HEALTH_WARN, "100 s", "see the verifier");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_nobody_answers),
        CASE(test_device),
        CASE(test_ranks_and_kv_cache),
        CASE(test_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
