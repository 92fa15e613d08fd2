/* What kernels/comm/nccl.c does around NCCL, with a fake of the library and the emulator's streams:
 * two ranks in different calls, a rank that dies or aborts, an error in the stream all end the
 * group, though a call that waits for another rank never ends by itself. Ranks are processes. */
#include "common/test.h"

#include "kernels/comm/comm.h"
#include "kernels/cuda/dev.h"
#include "tests/kernels/simt/fake_nccl.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, N = 8, N_OPS = COMM_BARRIER + 1 };

struct side { /* a rank's */
    struct comm *host, *c;
    struct dev_ops dev; /* the emulator's, but for what the stream is said to have done */
    struct dev_stream *stream;
    float *send, *recv; /* device memory, [RANKS][N] */
    struct err e;
};

/* The failed line, so that a child's exit code names it. */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            printf("rank %u, line %d: %s\n", s->host->rank, __LINE__, s->e.msg);                   \
            return __LINE__ % 90 + 1;                                                              \
        }                                                                                          \
    } while (0)

/* As on a device where a kernel of NCCL waits for another rank: until the communicator is aborted.
 */
static bool hung_is_done(struct dev_stream *s)
{
    (void)s;
    return fake_nccl()->n_aborts > 0;
}

static int run_op(struct side *s, int op, enum comm_type t, size_t n, size_t n_last)
{
    const struct comm_ops *ops = s->c->ops;
    size_t n_send[RANKS] = {n, n, n}, n_recv[RANKS] = {n, n, n_last};
    switch (op) {
    case COMM_ALL_REDUCE:
        return ops->all_reduce(s->c, s->send, s->recv, n, t, &s->e);
    case COMM_ALL_GATHER:
        return ops->all_gather(s->c, s->send, n, s->recv, t, &s->e);
    case COMM_REDUCE_SCATTER:
        return ops->reduce_scatter(s->c, s->send, n, s->recv, t, &s->e);
    case COMM_ALL_TO_ALL_V:
        return ops->all_to_all_v(s->c, s->send, n_send, s->recv, n_recv, t, &s->e);
    case COMM_BROADCAST:
        return ops->broadcast(s->c, s->send, n, t, 0, &s->e);
    default:
        return ops->barrier(s->c, &s->e);
    }
}

static int f32(struct side *s, int op)
{
    return run_op(s, op, COMM_F32, N, N);
}

/* The call just made gave rc: there or at finish the group is over, and it stays so. */
static int expect_end(struct side *s, int rc, const char *why)
{
    CHECK(rc == ERR_DEVICE || s->c->ops->finish(s->c, NULL, &s->e) == ERR_DEVICE);
    CHECK(strstr(s->e.msg, why));
    CHECK(fake_nccl()->n_aborts == 1);
    CHECK(s->c->ops->error(s->c, &s->e) == ERR_DEVICE && f32(s, COMM_BARRIER) == ERR_DEVICE);
    return 0;
}

static int same_calls(struct side *s)
{
    for (int i = 0; i < 3; i++)
        for (int op = 0; op < N_OPS; op++)
            CHECK(f32(s, op) == ERR_OK);
    CHECK(s->c->ops->finish(s->c, NULL, &s->e) == ERR_OK);
    CHECK(fake_nccl()->n_calls == 3 * (N_OPS - 1 + 2 * RANKS) && fake_nccl()->n_aborts == 0);
    CHECK(run_op(s, COMM_ALL_REDUCE, COMM_BYTE, N, N) == ERR_UNSUPPORTED);
    return 0;
}

/* The last rank is in another operation. */
static int other_op(struct side *s, int right)
{
    int wrong = (right + 1 + right % 2) % N_OPS;
    s->dev.is_done = hung_is_done;
    return expect_end(s, f32(s, s->host->rank + 1 == RANKS ? wrong : right), "differs");
}

#define OTHER(op)                                                                                  \
    static int other_##op(struct side *s)                                                          \
    {                                                                                              \
        return other_op(s, op);                                                                    \
    }
OTHER(COMM_ALL_REDUCE)
OTHER(COMM_ALL_GATHER)
OTHER(COMM_REDUCE_SCATTER)
OTHER(COMM_ALL_TO_ALL_V)
OTHER(COMM_BROADCAST)
OTHER(COMM_BARRIER)

static int other_count(struct side *s)
{
    s->dev.is_done = hung_is_done;
    size_t n = s->host->rank == 1 ? 7 : N;
    int rc = run_op(s, COMM_ALL_REDUCE, COMM_F32, n, n);
    return expect_end(s, rc, "all-reduce of 7 f32");
}

static int other_type(struct side *s)
{
    s->dev.is_done = hung_is_done;
    enum comm_type t = s->host->rank == 1 ? COMM_BF16 : COMM_F32;
    return expect_end(s, run_op(s, COMM_ALL_GATHER, t, N, N), "bf16");
}

static int other_parts(struct side *s)
{
    s->dev.is_done = hung_is_done;
    int rc = run_op(s, COMM_ALL_TO_ALL_V, COMM_F32, N, s->host->rank == 0 ? 5 : N);
    return expect_end(s, rc, "which expects 5");
}

/* One rank is a call ahead when the others differ: it is told too. */
static int late(struct side *s)
{
    s->dev.is_done = hung_is_done;
    int rc = f32(s, s->host->rank == 2 ? COMM_ALL_GATHER : COMM_ALL_REDUCE);
    if (rc == ERR_OK && s->host->rank == 0)
        rc = f32(s, COMM_ALL_REDUCE);
    return expect_end(s, rc, "call 0 differs");
}

static int death(struct side *s)
{
    s->dev.is_done = hung_is_done;
    if (s->host->rank == 1)
        raise(SIGKILL);
    return expect_end(s, f32(s, COMM_ALL_REDUCE), "rank 1 of 3");
}

static int abort_of_one(struct side *s)
{
    s->dev.is_done = hung_is_done;
    if (s->host->rank == 2) {
        s->c->ops->abort(s->c, "no memory");
        return 0;
    }
    return expect_end(s, f32(s, COMM_ALL_REDUCE), "rank 2: no memory");
}

static int error_in_the_stream(struct side *s)
{
    s->dev.is_done = hung_is_done;
    fake_nccl()->has_failed = s->host->rank == 1;
    return expect_end(s, f32(s, COMM_ALL_REDUCE), "rank 1: nccl: in the stream: a link is down");
}

/* The end of a step is waited for, not what the next one has put in the stream. */
static int end_of_a_step(struct side *s)
{
    struct dev_event *end = s->dev.event_open();
    CHECK(f32(s, COMM_ALL_REDUCE) == ERR_OK);
    s->dev.record(end, s->stream);
    CHECK(f32(s, COMM_ALL_REDUCE) == ERR_OK);
    s->dev.is_done = hung_is_done;
    CHECK(s->c->ops->finish(s->c, end, &s->e) == ERR_OK && fake_nccl()->n_aborts == 0);
    s->dev.event_close(end);
    return 0;
}

static int run_side(const char *id, uint32_t rank, int (*body)(struct side *s))
{
    struct side side = {.dev = DEV_SIMT}, *s = &side;
    if (COMM_SHM.join(&s->host, id, rank, RANKS, &s->e) != ERR_OK)
        return 99;
    s->stream = s->dev.stream_open();
    s->send = s->dev.alloc(RANKS * N * sizeof *s->send);
    s->recv = s->dev.alloc(RANKS * N * sizeof *s->recv);
    CHECK(s->stream && s->send && s->recv);
    CHECK(comm_open_nccl(&s->c, s->host, &s->dev, s->stream, &s->e) == ERR_OK);
    int code = body(s);
    s->c->ops->leave(s->c);
    s->dev.stream_close(s->stream);
    COMM_SHM.leave(s->host);
    return code;
}

/* dies: this rank ends by SIGKILL. */
static void expect_all(int (*body)(struct side *s), int dies)
{
    char id[COMM_ID_BYTES];
    pid_t pid[RANKS];
    assert_int_equal(COMM_SHM.make_id(RANKS, id, NULL), ERR_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        fflush(stdout);
        pid[r] = fork();
        assert_true(pid[r] >= 0);
        if (pid[r] == 0) {
            int code = run_side(id, r, body);
            fflush(stdout);
            _exit(code);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        int status;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        assert_int_equal(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
                         r == dies ? -SIGKILL : 0);
    }
}

static void test_same_calls_reach_nccl(void **state)
{
    (void)state;
    expect_all(same_calls, -1);
}

static void test_different_calls_end_the_group(void **state)
{
    static int (*const BODIES[])(struct side *) = {other_COMM_ALL_REDUCE,
                                                   other_COMM_ALL_GATHER,
                                                   other_COMM_REDUCE_SCATTER,
                                                   other_COMM_ALL_TO_ALL_V,
                                                   other_COMM_BROADCAST,
                                                   other_COMM_BARRIER,
                                                   other_count,
                                                   other_type,
                                                   other_parts,
                                                   late};
    (void)state;
    for (size_t i = 0; i < sizeof BODIES / sizeof *BODIES; i++)
        expect_all(BODIES[i], -1);
}

static void test_a_rank_that_is_gone_ends_the_group(void **state)
{
    (void)state;
    expect_all(death, 1);
    expect_all(abort_of_one, -1);
    expect_all(error_in_the_stream, -1);
}

static void test_the_end_of_a_step_is_waited_for(void **state)
{
    (void)state;
    expect_all(end_of_a_step, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_calls_reach_nccl),
        cmocka_unit_test(test_different_calls_end_the_group),
        cmocka_unit_test(test_a_rank_that_is_gone_ends_the_group),
        cmocka_unit_test(test_the_end_of_a_step_is_waited_for),
    };
    return cmocka_run_group_tests_name("kernels.simt.nccl", tests, NULL, NULL);
}
