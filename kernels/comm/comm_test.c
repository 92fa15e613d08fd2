/* Ranks as forked processes: results at odd sizes, the same bits everywhere, and how a group ends.
 */
#include "common/test.h"
#include "kernels/comm/comm.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, LONG = 200001 }; /* longer than three windows of floats */

/* Runs body as every rank; gives the exit codes, rank 0's by its return. */
struct group {
    char id[COMM_ID_BYTES];
    pid_t pid[COMM_MAX_RANKS];
    int code[COMM_MAX_RANKS];
};

static void run_group(uint32_t size, int (*body)(struct comm *c), struct group *g)
{
    memset(g, 0, sizeof *g);
    assert_int_equal(COMM_SHM.make_id(size, g->id, NULL), ERR_OK);
    for (uint32_t r = 0; r < size; r++) {
        g->pid[r] = fork();
        assert_true(g->pid[r] >= 0);
        if (g->pid[r] == 0) {
            struct comm *c;
            struct err e = {0};
            if (COMM_SHM.join(&c, g->id, r, size, &e) != ERR_OK)
                _exit(99);
            int code = body(c);
            COMM_SHM.leave(c);
            _exit(code);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        int status;
        assert_int_equal(waitpid(g->pid[r], &status, 0), g->pid[r]);
        g->code[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void expect_all(uint32_t size, int (*body)(struct comm *c))
{
    struct group g;
    run_group(size, body, &g);
    for (uint32_t r = 0; r < size; r++)
        assert_int_equal(g.code[r], 0);
}

static float value(uint32_t rank, size_t i)
{
    return (float)(i % 1013) * 0.37f + (float)rank * 1.1e-3f;
}

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            return __LINE__ % 90 + 1;                                                              \
    } while (0)

static int reduce_body(struct comm *c)
{
    static const size_t SIZES[] = {1, 7, 576, LONG};
    float *x = malloc(LONG * sizeof *x);
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        for (size_t i = 0; i < SIZES[k]; i++)
            x[i] = value(c->rank, i);
        CHECK(COMM_SHM.all_reduce(c, x, x, SIZES[k], COMM_F32, NULL) == ERR_OK);
        for (size_t i = 0; i < SIZES[k]; i++) {
            float sum = value(0, i);
            for (uint32_t r = 1; r < c->size; r++)
                sum += value(r, i);
            CHECK(x[i] == sum); /* bit for bit: the order of ranks */
        }
    }
    free(x);
    return 0;
}

static void test_all_reduce_is_the_sum_in_the_order_of_ranks(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++)
        expect_all(size, reduce_body);
}

static uint16_t bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int bf16_body(struct comm *c)
{
    /* 1 + 2^-8 + 2^-8 = 1.0078125: rounding after each addition would lose both small ones. */
    uint16_t x[5];
    for (int i = 0; i < 5; i++)
        x[i] = bf16(c->rank == 0 ? 1.0f : 0.00390625f);
    CHECK(COMM_SHM.all_reduce(c, x, x, 5, COMM_BF16, NULL) == ERR_OK);
    for (int i = 0; i < 5; i++)
        CHECK(x[i] == bf16(1.0078125f));
    return 0;
}

static void test_bf16_is_rounded_once(void **state)
{
    (void)state;
    expect_all(RANKS, bf16_body);
}

static int scatter_body(struct comm *c)
{
    enum { N = 70001 };
    float *send = malloc(sizeof *send * N * c->size), *recv = malloc(sizeof *recv * N * c->size);
    for (size_t i = 0; i < (size_t)N * c->size; i++)
        send[i] = value(c->rank, i);
    CHECK(COMM_SHM.reduce_scatter(c, send, N, recv, COMM_F32, NULL) == ERR_OK);
    for (size_t i = 0; i < N; i++) {
        float sum = value(0, (size_t)c->rank * N + i);
        for (uint32_t r = 1; r < c->size; r++)
            sum += value(r, (size_t)c->rank * N + i);
        CHECK(recv[i] == sum);
    }
    CHECK(COMM_SHM.all_gather(c, send, N, recv, COMM_F32, NULL) == ERR_OK);
    for (size_t i = 0; i < (size_t)N * c->size; i++)
        CHECK(recv[i] == value((uint32_t)(i / N), i % N));
    free(send);
    free(recv);
    return 0;
}

static void test_reduce_scatter_and_all_gather(void **state)
{
    (void)state;
    expect_all(RANKS, scatter_body);
    expect_all(4, scatter_body);
}

/* Rank r sends (r + 1) * 1000 * to elements to rank `to`: rank 0 gets none. */
static int exchange_body(struct comm *c)
{
    size_t n_send[RANKS], n_recv[RANKS], all_send = 0, all_recv = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        n_send[r] = (size_t)(c->rank + 1) * 30000 * r;
        n_recv[r] = (size_t)(r + 1) * 30000 * c->rank;
        all_send += n_send[r];
        all_recv += n_recv[r];
    }
    float *send = malloc(sizeof *send * all_send), *recv = malloc(sizeof *recv * (all_recv + 1));
    for (size_t i = 0; i < all_send; i++)
        send[i] = value(c->rank, i);
    CHECK(COMM_SHM.all_to_all_v(c, send, n_send, recv, n_recv, COMM_F32, NULL) == ERR_OK);
    const float *got = recv;
    for (uint32_t r = 0; r < RANKS; r++) {
        size_t from = 0;
        for (uint32_t to = 0; to < c->rank; to++)
            from += (size_t)(r + 1) * 30000 * to;
        for (size_t i = 0; i < n_recv[r]; i++)
            CHECK(*got++ == value(r, from + i));
    }
    free(send);
    free(recv);
    return 0;
}

static void test_all_to_all_v(void **state)
{
    (void)state;
    expect_all(RANKS, exchange_body);
}

static int broadcast_body(struct comm *c)
{
    char *x = calloc(1, LONG * 4);
    for (uint32_t root = 0; root < c->size; root++) {
        if (c->rank == root)
            memset(x, 'a' + (int)root, LONG * 4);
        CHECK(COMM_SHM.broadcast(c, x, LONG * 4, COMM_BYTE, root, NULL) == ERR_OK);
        CHECK(x[0] == 'a' + (int)root && x[LONG * 4 - 1] == 'a' + (int)root);
    }
    free(x);
    return 0;
}

static void test_broadcast(void **state)
{
    (void)state;
    expect_all(RANKS, broadcast_body);
}

static int mismatch_body(struct comm *c)
{
    float x[8] = {0};
    struct err e = {0};
    int rc = c->rank == 1 ? COMM_SHM.all_reduce(c, x, x, 7, COMM_F32, &e)
                          : COMM_SHM.all_reduce(c, x, x, 8, COMM_F32, &e);
    CHECK(rc == ERR_DEVICE && strstr(e.msg, "differs") && strstr(e.msg, "all-reduce of 7 f32"));
    CHECK(COMM_SHM.barrier(c, &e) == ERR_DEVICE); /* and it stays so */
    return 0;
}

static int parts_body(struct comm *c)
{
    size_t n_send[2] = {4, 4}, n_recv[2] = {4, c->rank == 1 ? 5 : 4};
    char send[8] = {0}, recv[9];
    struct err e = {0};
    int rc = COMM_SHM.all_to_all_v(c, send, n_send, recv, n_recv, COMM_BYTE, &e);
    CHECK(c->rank == 0 || (rc == ERR_DEVICE && strstr(e.msg, "which expects 5")));
    return COMM_SHM.barrier(c, &e) == ERR_DEVICE ? 0 : 1;
}

/* Every pair of calls that differ in their operation, in a group of its own. */
enum { N_OPS = COMM_BARRIER + 1 };

static int run_op(struct comm *c, int op, struct err *e)
{
    float send[4 * COMM_MAX_RANKS] = {0}, recv[4 * COMM_MAX_RANKS];
    size_t n[COMM_MAX_RANKS];
    for (uint32_t r = 0; r < COMM_MAX_RANKS; r++)
        n[r] = 4;
    switch (op) {
    case COMM_ALL_REDUCE:
        return COMM_SHM.all_reduce(c, send, recv, 4, COMM_F32, e);
    case COMM_ALL_GATHER:
        return COMM_SHM.all_gather(c, send, 4, recv, COMM_F32, e);
    case COMM_REDUCE_SCATTER:
        return COMM_SHM.reduce_scatter(c, send, 4, recv, COMM_F32, e);
    case COMM_ALL_TO_ALL_V:
        return COMM_SHM.all_to_all_v(c, send, n, recv, n, COMM_F32, e);
    case COMM_BROADCAST:
        return COMM_SHM.broadcast(c, send, 4, COMM_F32, 0, e);
    default:
        return COMM_SHM.barrier(c, e);
    }
}

/* The last rank is in another operation. */
static int wrong_op_body(struct comm *c, int right)
{
    struct err e = {0};
    int wrong = (right + 1 + right % 2) % N_OPS;
    int rc = run_op(c, c->rank + 1 == c->size ? wrong : right, &e);
    CHECK(rc == ERR_DEVICE && strstr(e.msg, "differs"));
    return 0;
}

#define WRONG_BODY(op)                                                                             \
    static int wrong_##op(struct comm *c)                                                          \
    {                                                                                              \
        return wrong_op_body(c, op);                                                               \
    }
WRONG_BODY(COMM_ALL_REDUCE)
WRONG_BODY(COMM_ALL_GATHER)
WRONG_BODY(COMM_REDUCE_SCATTER)
WRONG_BODY(COMM_ALL_TO_ALL_V)
WRONG_BODY(COMM_BROADCAST)
WRONG_BODY(COMM_BARRIER)

static void test_every_wrong_operation_is_an_error(void **state)
{
    static int (*const BODIES[N_OPS])(struct comm *) = {
        wrong_COMM_ALL_REDUCE,   wrong_COMM_ALL_GATHER, wrong_COMM_REDUCE_SCATTER,
        wrong_COMM_ALL_TO_ALL_V, wrong_COMM_BROADCAST,  wrong_COMM_BARRIER};
    (void)state;
    for (uint32_t i = 0; i < N_OPS; i++)
        expect_all(2 + i % 3, BODIES[i]);
}

/* A group over this one: each rank says its calls, rank 0 far ahead of the others. */
static int announce_body(struct comm *c)
{
    struct err e = {0};
    struct comm_call call;
    memset(&call, 0, sizeof call);
    call.op = COMM_ALL_GATHER;
    call.n = 7;
    for (uint64_t turn = 0; turn < 200; turn++) {
        call.turn = turn;
        CHECK(COMM_SHM.announce(c, call, &e) == ERR_OK);
        if (turn == 100)
            CHECK(COMM_SHM.barrier(c, &e) == ERR_OK);
    }
    CHECK(COMM_SHM.barrier(c, &e) == ERR_OK && COMM_SHM.watch(c, &e) == ERR_OK);
    CHECK(COMM_SHM.barrier(c, &e) == ERR_OK); /* all have seen it whole */
    call.turn = 200;
    call.n = c->rank == 1 ? 8 : 7;
    (void)!COMM_SHM.announce(c, call, &e); /* the first ones see nothing yet */
    CHECK(COMM_SHM.barrier(c, &e) == ERR_DEVICE || COMM_SHM.watch(c, &e) == ERR_DEVICE);
    CHECK(strstr(e.msg, "call 200 differs") && strstr(e.msg, "all-gather of 8"));
    return 0;
}

static int watch_body(struct comm *c)
{
    struct err e = {0};
    if (c->rank == 1)
        raise(SIGKILL);
    while (COMM_SHM.watch(c, &e) == ERR_OK) /* ends by the test's own time limit, or so */
        usleep(1000);
    CHECK(strstr(e.msg, "rank 1 of 3") && strstr(e.msg, "has ended"));
    return 0;
}

static void test_a_group_over_another_is_checked_without_waiting(void **state)
{
    struct group g;
    (void)state;
    expect_all(RANKS, announce_body);
    run_group(RANKS, watch_body, &g);
    assert_int_equal(g.code[0], 0);
    assert_int_equal(g.code[1], 128 + SIGKILL);
    assert_int_equal(g.code[2], 0);
}

static void test_different_calls_are_an_error_at_once(void **state)
{
    (void)state;
    expect_all(RANKS, mismatch_body);
    expect_all(2, parts_body);
}

static int death_body(struct comm *c)
{
    float x[8] = {0};
    struct err e = {0};
    if (c->rank == 1)
        raise(SIGKILL);
    CHECK(COMM_SHM.all_reduce(c, x, x, 8, COMM_F32, &e) == ERR_DEVICE);
    CHECK(strstr(e.msg, "rank 1 of 3") && strstr(e.msg, "has ended"));
    return 0;
}

static int abort_body(struct comm *c)
{
    struct err e = {0};
    if (c->rank == 2) {
        COMM_SHM.abort(c, "no memory for weights");
        return 0;
    }
    CHECK(COMM_SHM.barrier(c, &e) == ERR_DEVICE);
    CHECK(strcmp(e.msg, "rank 2: no memory for weights") == 0);
    CHECK(COMM_SHM.error(c, NULL) == ERR_DEVICE);
    return 0;
}

static void test_a_rank_that_dies_or_aborts_ends_the_group(void **state)
{
    struct group g;
    (void)state;
    run_group(RANKS, death_body, &g);
    assert_int_equal(g.code[0], 0);
    assert_int_equal(g.code[1], 128 + SIGKILL);
    assert_int_equal(g.code[2], 0);
    expect_all(RANKS, abort_body);
}

static void test_ids_and_ranks_are_checked(void **state)
{
    struct comm *c;
    char id[COMM_ID_BYTES];
    (void)state;
    assert_int_equal(COMM_SHM.make_id(COMM_MAX_RANKS + 1, id, NULL), ERR_INVALID);
    assert_int_equal(COMM_SHM.join(&c, "shm:0", 0, 2, NULL), ERR_INVALID);
    assert_int_equal(COMM_SHM.join(&c, "shm:x", 0, 2, NULL), ERR_INVALID);
    assert_int_equal(COMM_SHM.join(&c, "tcp:1", 0, 2, NULL), ERR_INVALID);
    assert_int_equal(COMM_SHM.join(&c, "shm:0", 2, 2, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce_is_the_sum_in_the_order_of_ranks),
        cmocka_unit_test(test_bf16_is_rounded_once),
        cmocka_unit_test(test_reduce_scatter_and_all_gather),
        cmocka_unit_test(test_all_to_all_v),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_different_calls_are_an_error_at_once),
        cmocka_unit_test(test_every_wrong_operation_is_an_error),
        cmocka_unit_test(test_a_group_over_another_is_checked_without_waiting),
        cmocka_unit_test(test_a_rank_that_dies_or_aborts_ends_the_group),
        cmocka_unit_test(test_ids_and_ranks_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
