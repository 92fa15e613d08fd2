/* Commit marks against a plain model: a set of numbers, any order, with repeats and holes. */
#include "controller/tracker.h"

#include "common/rng.h"
#include "common/test.h"

#include <string.h>

static void test_any_order_gives_the_contiguous_mark(void **state)
{
    (void)state;
    enum { N = 400 };
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rng r;
        rng_seed(&r, seed);
        struct tracker *t = tracker_new();
        struct tracker_source *s = tracker_find(t, STR("e"), 7, true);
        bool seen[N + 2] = {false};
        for (int i = 0; i < 3 * N; i++) {
            uint64_t seq = 1 + rng_below(&r, N);
            seen[seq] = true;
            tracker_add(s, seq);
            uint64_t mark = 0;
            while (seen[mark + 1])
                mark++;
            assert_true(s->mark == mark);
            for (uint32_t j = 0; j < s->n_waiting; j++) {
                assert_true(s->waiting[j].first > (j ? s->waiting[j - 1].last + 1 : mark + 1));
                assert_true(s->waiting[j].last >= s->waiting[j].first);
            }
        }
        tracker_free(t);
    }
}

static void test_dropped_rows_are_holes_once(void **state)
{
    (void)state;
    struct tracker *t = tracker_new();
    struct tracker_source *s = tracker_find(t, STR("e"), 7, true);
    struct seq_range hole[8];
    tracker_add(s, 1);
    tracker_add(s, 5);
    tracker_add(s, 6);
    tracker_add(s, 12);
    assert_int_equal(tracker_note_oldest(s, 2, 0, hole, 8), 0);
    assert_int_equal(tracker_note_oldest(s, 10, 5, hole, 8), 2);
    assert_true(hole[0].first == 2 && hole[0].last == 4);
    assert_true(hole[1].first == 7 && hole[1].last == 9);
    assert_true(s->mark == 9);
    assert_int_equal(tracker_note_oldest(s, 10, 5, hole, 8), 0);
    tracker_add(s, 3); /* came after all: late, the mark stays */
    assert_true(s->mark == 9);
    tracker_add(s, 10);
    tracker_add(s, 11);
    assert_true(s->mark == 12);
    tracker_free(t);
}

static void test_a_new_acquaintance_is_not_a_loss(void **state)
{
    (void)state;
    struct tracker *t = tracker_new();
    struct seq_range hole[8];
    struct tracker_source *s = tracker_find(t, STR("e"), 1, true);
    assert_int_equal(tracker_note_oldest(s, 1000, 0, hole, 8), 0);
    assert_true(s->mark == 999);
    s = tracker_find(t, STR("e"), 2, true);
    assert_int_equal(tracker_note_oldest(s, 1000, 10, hole, 8), 1);
    assert_true(hole[0].first == 990 && hole[0].last == 999);
    assert_non_null(tracker_find(t, STR("e"), 1, false));
    assert_null(tracker_find(t, STR("f"), 1, false));
    tracker_free(t);
}

static void test_too_many_ranges_forget_the_highest(void **state)
{
    (void)state;
    struct tracker *t = tracker_new();
    struct tracker_source *s = tracker_find(t, STR("e"), 1, true);
    for (uint64_t i = 0; i < TRACKER_MAX_RANGES + 50; i++)
        tracker_add(s, 3 + 2 * i);
    assert_int_equal(s->n_waiting, TRACKER_MAX_RANGES);
    tracker_add(s, 1);
    tracker_add(s, 2);
    assert_true(s->mark == 3);
    for (uint64_t i = 1; i < 2 * TRACKER_MAX_RANGES + 200; i++) /* they are sent again */
        tracker_add(s, i);
    assert_true(s->mark == 2 * TRACKER_MAX_RANGES + 199);
    tracker_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_contiguous_mark),
        cmocka_unit_test(test_dropped_rows_are_holes_once),
        cmocka_unit_test(test_a_new_acquaintance_is_not_a_loss),
        cmocka_unit_test(test_too_many_ranges_forget_the_highest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
