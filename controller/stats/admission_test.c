/* controller/stats/admission_test.c - order, holes, deadlines, duplicates, restarts; and the whole
 * against a queue that goes through every row. */
#include "controller/stats/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/rng.h"

enum { DEADLINE = 1000 };

static struct unit_row row(uint64_t source, uint64_t admission, uint64_t at)
{
    return (struct unit_row){.source = source, .admission = admission, .committed_us = at};
}

static bool put(struct admission_queue *q, uint64_t source, uint64_t admission, uint64_t at)
{
    struct unit_row r = row(source, admission, at);
    return admission_put(q, &r);
}

/* Everything that is in order at `now`, as one number a digit. */
static uint64_t drain(struct admission_queue *q, uint64_t now)
{
    uint64_t digits = 0;
    struct unit_row r;
    while (admission_take(q, now, DEADLINE, &r))
        digits = digits * 10 + r.admission;
    return digits;
}

static void test_order(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    put(&q, 7, 3, 1);
    put(&q, 7, 2, 2);
    assert_int_equal(drain(&q, 3), 0);
    put(&q, 7, 1, 3);
    assert_int_equal(drain(&q, 3), 123);
    put(&q, 7, 4, 4);
    assert_int_equal(drain(&q, 4), 4);
    assert_int_equal(admission_wake_us(&q, DEADLINE), 0);
}

static void test_counting_from_zero(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    put(&q, 7, 0, 1);
    put(&q, 7, 1, 1);
    assert_int_equal(drain(&q, 1), 1);
    put(&q, 7, 2, 1);
    assert_int_equal(drain(&q, 1), 2);
}

static void test_hole_until_deadline(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    put(&q, 7, 1, 10);
    put(&q, 7, 5, 20);
    put(&q, 7, 4, 30);
    assert_int_equal(drain(&q, 1019), 1);
    assert_int_equal(admission_wake_us(&q, DEADLINE), 1020);
    assert_int_equal(drain(&q, 1020), 45);
    assert_int_equal(q.n_missing, 2);
    assert_false(put(&q, 7, 2, 1021)); /* too late: counted, not used */
    assert_int_equal(q.n_late, 1);
    assert_int_equal(drain(&q, 9999), 0);
}

/* A law that begins in the middle of an engine's life: what was before is nobody's loss. */
static void test_a_late_beginning_misses_nothing(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    put(&q, 7, 6001, 10);
    put(&q, 7, 6000, 11);
    assert_int_equal(drain(&q, 1009), 0);
    assert_int_equal(drain(&q, 1011), 6000 * 10 + 6001);
    assert_int_equal(q.n_missing, 0);
    put(&q, 7, 6004, 1012);
    assert_int_equal(drain(&q, 9999), 6004);
    assert_int_equal(q.n_missing, 2);
}

static void test_duplicates(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    assert_true(put(&q, 7, 2, 1));
    assert_false(put(&q, 7, 2, 1));
    assert_int_equal(q.n_duplicate, 1);
    put(&q, 7, 1, 1);
    assert_int_equal(drain(&q, 1), 12);
    assert_false(put(&q, 7, 2, 1));
    assert_int_equal(q.n_late, 1);
}

static void test_sources_are_independent(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    put(&q, 7, 2, 1);
    put(&q, 8, 1, 2);
    assert_int_equal(drain(&q, 3), 1); /* source 8 does not wait for source 7 */
    put(&q, 7, 1, 3);
    assert_int_equal(drain(&q, 3), 12);
}

/* An engine that began to count again must not be deaf for ever. */
static void test_restarted_numbers(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    for (uint64_t i = 1; i <= 500; i++) {
        put(&q, 7, i, i);
        drain(&q, i);
    }
    int used = 0;
    for (uint64_t i = 1; i <= 100; i++) {
        used += put(&q, 7, i, 1000 + i);
        drain(&q, 1000 + i);
    }
    assert_int_equal(used, 100 - (ADMISSION_RESTART_LATE - 1));
    drain(&q, 5000);
    assert_int_equal(q.n_held, 0);
}

static void test_full_queue_gives_up_the_hole(void **state)
{
    (void)state;
    struct admission_queue q = {0};
    struct unit_row r;
    int taken = 0;
    put(&q, 7, 1, 1);
    assert_true(admission_take(&q, 1, DEADLINE, &r));
    for (uint64_t i = 3; i < 3 + ADMISSION_HELD; i++) {
        put(&q, 7, i, 1);
        while (admission_take(&q, 1, DEADLINE, &r))
            taken++;
    }
    assert_int_equal(taken, ADMISSION_HELD);
    assert_int_equal(q.n_missing, 1);
    for (uint64_t source = 100; source < 120; source++) /* more sources than the table holds */
        put(&q, source, 1, 1);
    while (admission_take(&q, 99999, DEADLINE, &r))
        taken++;
    assert_int_equal(taken, ADMISSION_HELD + 20);
}

/* The same law the slow way: every row is gone through at every call. */
enum { SOURCES = 3, AHEAD = 500 };
struct plain_queue {
    struct unit_row held[ADMISSION_HELD];
    uint32_t n;
    uint64_t next[SOURCES];
};

static uint32_t find_plain(const struct plain_queue *q, const struct unit_row *row)
{
    uint32_t i = 0;
    while (i < q->n && (q->held[i].source != row->source || q->held[i].admission != row->admission))
        i++;
    return i;
}

static void remove_plain(struct plain_queue *q, uint32_t i)
{
    memmove(&q->held[i], &q->held[i + 1], (--q->n - i) * sizeof *q->held);
}

static bool put_plain(struct plain_queue *q, const struct unit_row *row)
{
    if (row->admission < q->next[row->source] || find_plain(q, row) < q->n)
        return false;
    if (q->n == ADMISSION_HELD)
        remove_plain(q, 0);
    q->held[q->n++] = *row;
    return true;
}

static bool give_plain(struct plain_queue *q, struct unit_row *out)
{
    for (uint32_t i = 0; i < q->n; i++) {
        uint64_t *next = &q->next[q->held[i].source];
        if (q->held[i].admission != *next && (*next || q->held[i].admission != 1))
            continue;
        *out = q->held[i];
        *next = out->admission + 1;
        remove_plain(q, i);
        return true;
    }
    return false;
}

static bool take_plain(struct plain_queue *q, uint64_t now_us, struct unit_row *out)
{
    if (give_plain(q, out))
        return true;
    if (q->n == 0 || (now_us - q->held[0].committed_us < DEADLINE && q->n < ADMISSION_HELD))
        return false;
    const struct unit_row *low = &q->held[0];
    for (uint32_t i = 0; i < q->n; i++)
        if (q->held[i].source == low->source && q->held[i].admission < low->admission)
            low = &q->held[i];
    q->next[low->source] = low->admission;
    return give_plain(q, out);
}

/* Hundreds wait, some come twice, some never; now and then the queue is read again, as after a
 * restart: what is not of the state is gone. */
static void test_as_the_plain_way(void **state)
{
    (void)state;
    static struct admission_queue q;
    static struct plain_queue plain;
    uint64_t begun[SOURCES] = {0}, n_given = 0;
    uint32_t most = 0;
    struct rng r;
    rng_seed(&r, 11);
    for (uint64_t now_us = 1; now_us < 12000; now_us++) {
        struct unit_row one = {.source = rng_below(&r, SOURCES), .committed_us = now_us}, got, want;
        begun[one.source] += rng_below(&r, 2);
        one.admission = 1 + begun[one.source] + rng_below(&r, AHEAD);
        assert_int_equal(admission_put(&q, &one), put_plain(&plain, &one));
        most = plain.n > most ? plain.n : most;
        bool is_given = true;
        while (is_given) {
            is_given = take_plain(&plain, now_us, &want);
            assert_int_equal(admission_take(&q, now_us, DEADLINE, &got), is_given);
            n_given += is_given;
            if (is_given)
                assert_true(got.source == want.source && got.admission == want.admission &&
                            got.committed_us == want.committed_us);
        }
        assert_int_equal(q.n_held, plain.n);
        if (rng_below(&r, 500) == 0)
            memset((char *)&q + offsetof(struct admission_queue, is_settled), 0,
                   sizeof q - offsetof(struct admission_queue, is_settled));
    }
    assert_true(n_given > 2000 && most > 200);
}

/* Such a state may be read from a file: those rows are nobody's, and the others come out. */
static void test_gone_rows_of_a_stored_state(void **state)
{
    static struct admission_queue q;
    struct unit_row r;
    uint32_t n_gone = 0, n_taken = 0;
    (void)state;
    for (uint64_t n = 2; n < 400; n++)
        put(&q, 1, n, n);
    for (uint32_t i = 0; i < q.n_held; i += 3, n_gone++)
        q.held[i].flags |= UNIT_GONE;
    memset((char *)&q + offsetof(struct admission_queue, is_settled), 0,
           sizeof q - offsetof(struct admission_queue, is_settled));
    put(&q, 1, 1, 1);
    for (; admission_take(&q, 99999, DEADLINE, &r); n_taken++)
        assert_false(r.flags & UNIT_GONE);
    assert_int_equal(n_taken, 399 - n_gone);
    assert_int_equal(q.n_held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_plain_way),
        cmocka_unit_test(test_gone_rows_of_a_stored_state),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_counting_from_zero),
        cmocka_unit_test(test_hole_until_deadline),
        cmocka_unit_test(test_a_late_beginning_misses_nothing),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_sources_are_independent),
        cmocka_unit_test(test_restarted_numbers),
        cmocka_unit_test(test_full_queue_gives_up_the_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
