/* Sequence numbers without a gap over restarts, commit marks, bounds, a disk that refuses. */
#include "common/test.h"

#include "engine/record/outbox_store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

struct fixture {
    char dir[40], path[64];
    int stored, refused;
};

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    strncpy(f.dir, "/tmp/milepost_outbox_XXXXXX", sizeof f.dir - 1);
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.path, sizeof f.path, "%s/outbox.db", f.dir);
    *state = &f;
    return 0;
}

static struct outbox *open_outbox(struct fixture *f, uint64_t max_bytes)
{
    struct outbox_config c = {.path = f->path, .max_bytes = max_bytes, .engine = STR("e1")};
    struct outbox *o;
    struct err e;
    assert_ok(outbox_open(&o, &c, &e), &e);
    return o;
}

static void on_stored(void *ctx, bool is_stored)
{
    struct fixture *f = ctx;
    if (is_stored)
        f->stored++;
    else
        f->refused++;
}

static void wait_done(struct outbox *o, const struct fixture *f, int n)
{
    struct pollfd p = {.fd = outbox_fd(o), .events = POLLIN};
    for (int i = 0; i < 200 && f->stored + f->refused < n; i++) {
        poll(&p, 1, 50);
        outbox_drain(o);
    }
    assert_int_equal(f->stored + f->refused, n);
}

/* One at a time: the record lives on this stack until it is stored. */
static void put_and_wait(struct outbox *o, struct fixture *f, uint64_t admission, struct str text)
{
    struct output out = {.request_id = STR("r"),
                         .route = STR("d"),
                         .arm = STR("champion"),
                         .text = text,
                         .finish_reason = STR("stop"),
                         .admission = admission,
                         .propensity = 1};
    struct outbox_item item = {.output = &out, .on_stored = on_stored, .ctx = f};
    int n = f->stored + f->refused + 1;
    outbox_put(o, &item);
    wait_done(o, f, n);
}

static void expect_row(struct outbox *o, uint64_t from, uint64_t seq)
{
    struct outbox_reader *r;
    struct err e;
    struct buf json;
    struct arena a;
    struct output out;
    buf_init(&json, 1 * MiB);
    arena_init(&a, 1 * MiB);
    assert_ok(outbox_reader_open(&r, o, &e), &e);
    assert_ok(outbox_read(r, &from, &json, &e), &e);
    assert_int_equal(from, seq);
    assert_ok(output_decode(buf_str(&json), &a, &out, &e), &e);
    assert_int_equal(out.seq, seq);
    assert_str(out.engine, "e1");
    outbox_reader_close(r);
    arena_free(&a);
    buf_free(&json);
}

static void wait_committed(struct outbox *o, uint64_t seq)
{
    struct outbox_state st = {0};
    for (int i = 0; i < 200 && st.committed_seq < seq; i++) {
        outbox_get_state(o, &st);
        poll(NULL, 0, 10);
    }
    assert_int_equal(st.committed_seq, seq);
}

static void test_numbers_survive_restarts(void **state)
{
    struct fixture *f = *state;
    struct outbox_state st, before;
    struct outbox *o = open_outbox(f, 1 << 20);
    for (uint64_t i = 1; i <= 5; i++)
        put_and_wait(o, f, i, STR("x"));
    outbox_get_state(o, &before);
    assert_int_equal(before.next_seq, 6);
    assert_int_equal(before.oldest_seq, 1);
    outbox_commit(o, before.epoch, 3);
    outbox_commit(o, before.epoch + 1, 5); /* another life of the file: ignored */
    outbox_commit(o, before.epoch, 99);    /* nothing that high was ever stored: ignored */
    wait_committed(o, 3);
    expect_row(o, 1, 4);
    outbox_save_desired(o, STR("{\"v\":1}"));
    outbox_close(o);
    o = open_outbox(f, 1 << 20);
    outbox_get_state(o, &st);
    assert_true(st.epoch == before.epoch && st.next_seq == 6 && st.rows == 2);
    assert_int_equal(st.committed_seq, 3);
    assert_int_equal(st.next_admission, 6);
    struct buf desired;
    buf_init(&desired, 1000);
    assert_true(outbox_load_desired(o, &desired));
    assert_str(buf_str(&desired), "{\"v\":1}");
    buf_free(&desired);
    outbox_commit(o, st.epoch, 5);
    wait_committed(o, 5);
    outbox_close(o);
    o = open_outbox(f, 1 << 20); /* empty, and still numbers go on */
    put_and_wait(o, f, 6, STR("x"));
    expect_row(o, 0, 6);
    outbox_close(o);
}

static void test_bound_drops_the_oldest(void **state)
{
    struct fixture *f = *state;
    struct outbox *o = open_outbox(f, 6000);
    char text[1000];
    memset(text, 'a', sizeof text);
    for (uint64_t i = 1; i <= 20; i++)
        put_and_wait(o, f, i, (struct str){text, sizeof text});
    struct outbox_state st;
    outbox_get_state(o, &st);
    assert_int_equal(f->stored, 20);
    assert_true(st.rows >= 2 && st.rows <= 6);
    assert_int_equal(st.dropped, 20 - st.rows);
    assert_int_equal(st.oldest_seq, 21 - st.rows);
    expect_row(o, 1, st.oldest_seq);
    outbox_close(o);
}

/* A file that may not grow stands for a full disk. */
static void test_full_disk_is_counted_and_recovers(void **state)
{
    struct fixture *f = *state;
    struct outbox *o = open_outbox(f, 1 << 30);
    put_and_wait(o, f, 1, STR("x"));
    struct rlimit old, tiny;
    getrlimit(RLIMIT_FSIZE, &old);
    tiny = old;
    tiny.rlim_cur = 64 * 1024;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tiny);
    char text[20000];
    memset(text, 'a', sizeof text);
    for (uint64_t i = 2; i <= 20; i++)
        put_and_wait(o, f, i, (struct str){text, sizeof text});
    assert_true(f->refused > 5);
    setrlimit(RLIMIT_FSIZE, &old);
    int stored = f->stored;
    put_and_wait(o, f, 21, STR("x"));
    assert_int_equal(f->stored, stored + 1);
    struct outbox_state st;
    outbox_get_state(o, &st);
    assert_int_equal(st.next_seq, (uint64_t)f->stored + 1); /* no gap */
    outbox_close(o);
}

static void test_errors_at_open(void **state)
{
    (void)state;
    struct outbox_config c = {.path = "/proc/none/outbox.db", .engine = STR("e")};
    struct outbox *o;
    struct err e;
    assert_int_not_equal(outbox_open(&o, &c, &e), ERR_OK);
    assert_non_null(strstr(e.msg, "/proc/none/outbox.db"));
    assert_null(o);
}

static uint64_t crashes_of(struct fixture *f)
{
    struct outbox_state st;
    struct outbox *o = open_outbox(f, 0);
    outbox_get_state(o, &st);
    outbox_close(o);
    return st.crashes;
}

/* A life that ends with outbox_close is no crash; one that ends any other way is one, once. */
static void test_bad_ends_are_counted(void **state)
{
    struct fixture *f = *state;
    struct outbox_store store;
    struct err e;
    assert_int_equal(crashes_of(f), 0);
    assert_int_equal(crashes_of(f), 0);
    for (uint64_t n = 1; n <= 2; n++) {
        assert_ok(outbox_store_open(&store, f->path, false, 0, &e), &e);
        assert_ok(outbox_store_begin_life(&store, &e), &e);
        outbox_store_close(&store); /* as a kill does: nothing says that it ended well */
        assert_int_equal(crashes_of(f), n);
        assert_int_equal(crashes_of(f), n);
    }
}

static uint64_t epoch_from(struct fixture *f, uint64_t seed)
{
    struct outbox_store store;
    struct err e;
    assert_ok(outbox_store_open(&store, f->path, false, seed, &e), &e);
    uint64_t epoch = store.epoch;
    outbox_store_close(&store);
    return epoch;
}

/* What is random comes from outside; a file that has its epoch keeps it. */
static void test_epoch_comes_from_the_seed(void **state)
{
    struct fixture *f = *state;
    const uint64_t seed = UINT64_C(0xfedcba9876543210);
    uint64_t first = epoch_from(f, seed);
    assert_true(first == (seed >> 11 | 1));
    assert_true(epoch_from(f, ~seed) == first);
    assert_int_equal(unlink(f->path), 0);
    assert_true(epoch_from(f, ~seed) == (~seed >> 11 | 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_numbers_survive_restarts, set_up),
        cmocka_unit_test_setup(test_bound_drops_the_oldest, set_up),
        cmocka_unit_test_setup(test_full_disk_is_counted_and_recovers, set_up),
        cmocka_unit_test_setup(test_errors_at_open, set_up),
        cmocka_unit_test_setup(test_bad_ends_are_counted, set_up),
        cmocka_unit_test_setup(test_epoch_comes_from_the_seed, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
