/* Collectives on device memory (kernels/comm): through the host between three processes on the
 * emulator, and alone on a device, where NCCL is asked as well. Results are those of a group of
 * host memory, bit by bit: small whole numbers, so that no order of a sum matters. */
#include "common/test.h"

#include "kernels/comm/comm.h"
#include "tests/kernels/simt/device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, MAX = 4 };
#ifdef TEST_ON_CUDA
enum { RANKS = 1 }; /* one device, and NCCL takes one rank of it */
#else
enum { RANKS = 3 };
#endif

typedef int open_fn(struct comm **out, struct comm *host, const struct dev_ops *dev,
                    struct dev_stream *stream, struct err *e);

struct side { /* a rank's */
    struct comm *host, *c;
    struct dev_stream *stream;
    float *send, *recv; /* device memory, [MAX][N] */
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

static float value(uint32_t rank, size_t i)
{
    return (float)((i * 7 + rank * 31) % 127);
}

static int put(struct side *s, size_t n)
{
    float *x = malloc(n * sizeof *x);
    CHECK(x);
    for (size_t i = 0; i < n; i++)
        x[i] = value(s->host->rank, i);
    TEST_DEV.copy(s->send, x, n * sizeof *x, DEV_TO_DEVICE, s->stream);
    CHECK(TEST_DEV.sync(s->stream, &s->e) == ERR_OK);
    free(x);
    return 0;
}

/* What came must be want(rank, i). */
static int expect(struct side *s, const float *device, size_t n,
                  float (*want)(struct side *s, size_t i))
{
    float *x = malloc(n * sizeof *x);
    CHECK(x && s->c->ops->finish(s->c, NULL, &s->e) == ERR_OK);
    TEST_DEV.copy(x, device, n * sizeof *x, DEV_TO_HOST, s->stream);
    CHECK(TEST_DEV.sync(s->stream, &s->e) == ERR_OK);
    for (size_t i = 0; i < n; i++)
        CHECK(x[i] == want(s, i));
    free(x);
    return 0;
}

static float sum_of(struct side *s, size_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < s->host->size; r++)
        sum += value(r, i);
    return sum;
}

static float own_part_of_sum(struct side *s, size_t i)
{
    return sum_of(s, s->host->rank * N + i);
}

static float of_each(struct side *s, size_t i)
{
    (void)s;
    return value((uint32_t)(i / N), i % N);
}

static float of_last(struct side *s, size_t i)
{
    return value(s->host->size - 1, i);
}

/* Rank r sends (r + 1) 10 elements to everybody. */
static float of_all_to_all(struct side *s, size_t i)
{
    uint32_t r = 0;
    size_t first = 0;
    while (i - first >= (r + 1) * 10)
        first += (r++ + 1) * 10;
    return value(r, s->host->rank * (r + 1) * 10 + (i - first));
}

static int all_ops(struct side *s)
{
    const struct comm_ops *ops = s->c->ops;
    uint32_t size = s->host->size;
    size_t n_send[COMM_MAX_RANKS], n_recv[COMM_MAX_RANKS], all = 0;
    int rc = put(s, size * N);
    for (uint32_t r = 0; r < size; r++) {
        n_send[r] = (s->host->rank + 1) * 10;
        all += n_recv[r] = (r + 1) * 10;
    }
    CHECK(rc == 0 && ops->is_of_device);
    CHECK(ops->all_reduce(s->c, s->send, s->recv, N, COMM_F32, &s->e) == ERR_OK);
    CHECK((rc = expect(s, s->recv, N, sum_of)) == 0);
    CHECK(ops->all_gather(s->c, s->send, N, s->recv, COMM_F32, &s->e) == ERR_OK);
    CHECK((rc = expect(s, s->recv, size * N, of_each)) == 0);
    CHECK(ops->reduce_scatter(s->c, s->send, N, s->recv, COMM_F32, &s->e) == ERR_OK);
    CHECK((rc = expect(s, s->recv, N, own_part_of_sum)) == 0);
    CHECK(ops->all_to_all_v(s->c, s->send, n_send, s->recv, n_recv, COMM_F32, &s->e) == ERR_OK);
    CHECK((rc = expect(s, s->recv, all, of_all_to_all)) == 0);
    CHECK(ops->barrier(s->c, &s->e) == ERR_OK && ops->finish(s->c, NULL, &s->e) == ERR_OK);
    CHECK(ops->broadcast(s->c, s->send, N, COMM_F32, size - 1, &s->e) == ERR_OK);
    CHECK((rc = expect(s, s->send, N, of_last)) == 0);
    CHECK(ops->all_reduce(s->c, s->send, s->send, 1, COMM_BYTE, &s->e) == ERR_UNSUPPORTED);
    return 0;
}

/* The last rank dies: the others' calls end, with its number. */
static int death(struct side *s)
{
    uint32_t last = s->host->size - 1;
    int rc = put(s, N);
    CHECK(rc == 0);
    if (s->host->rank == last)
        raise(SIGKILL);
    rc = s->c->ops->all_reduce(s->c, s->send, s->recv, N, COMM_F32, &s->e);
    CHECK(rc == ERR_DEVICE || s->c->ops->finish(s->c, NULL, &s->e) == ERR_DEVICE);
    CHECK(strstr(s->e.msg, "rank 2 of 3") && s->c->ops->barrier(s->c, &s->e) == ERR_DEVICE);
    return 0;
}

static int mismatch(struct side *s)
{
    int rc = put(s, 2 * N);
    CHECK(rc == 0);
    if (s->host->rank == 1)
        rc = s->c->ops->all_gather(s->c, s->send, N, s->recv, COMM_F32, &s->e);
    else
        rc = s->c->ops->all_reduce(s->c, s->send, s->recv, N, COMM_F32, &s->e);
    CHECK(rc == ERR_DEVICE || s->c->ops->finish(s->c, NULL, &s->e) == ERR_DEVICE);
    CHECK(strstr(s->e.msg, "differs") && strstr(s->e.msg, "all-gather"));
    return 0;
}

static int run_side(const char *id, uint32_t rank, open_fn *open, int (*body)(struct side *s))
{
    struct side side = {0}, *s = &side;
    if (COMM_SHM.join(&s->host, id, rank, RANKS, &s->e) != ERR_OK)
        return 99;
    s->stream = TEST_DEV.stream_open();
    s->send = TEST_DEV.alloc(MAX * N * sizeof *s->send);
    s->recv = TEST_DEV.alloc(MAX * N * sizeof *s->recv);
    CHECK(s->stream && s->send && s->recv);
    int rc = open(&s->c, s->host, &TEST_DEV, s->stream, &s->e);
    CHECK(rc == ERR_OK);
    rc = body(s);
    s->c->ops->leave(s->c);
    TEST_DEV.release(s->send);
    TEST_DEV.release(s->recv);
    TEST_DEV.stream_close(s->stream);
    COMM_SHM.leave(s->host);
    return rc;
}

/* codes: what each rank's process ended with. */
static void run_ranks(open_fn *open, int (*body)(struct side *s), int codes[RANKS])
{
    char id[COMM_ID_BYTES];
    pid_t pid[RANKS] = {0};
    assert_int_equal(COMM_SHM.make_id(RANKS, id, NULL), ERR_OK);
    if (RANKS == 1) { /* a device's context does not survive a fork */
        codes[0] = run_side(id, 0, open, body);
        return;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        fflush(stdout);
        pid[r] = fork();
        assert_true(pid[r] >= 0);
        if (pid[r] == 0) {
            int code = run_side(id, r, open, body);
            fflush(stdout);
            _exit(code);
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        int status;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
}

static void expect_all(open_fn *open, int (*body)(struct side *s))
{
    int codes[RANKS];
    run_ranks(open, body, codes);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(codes[r], 0);
}

static void test_through_the_host(void **state)
{
    (void)state;
    expect_all(comm_open_staged, all_ops);
    if (RANKS > 1)
        expect_all(comm_open_staged, mismatch);
}

static void test_a_rank_that_dies(void **state)
{
    int codes[RANKS];
    (void)state;
    if (RANKS == 1)
        skip();
    run_ranks(comm_open_staged, death, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[RANKS - 1], 1000 + SIGKILL);
}

#ifdef MILEPOST_WITH_NCCL
#ifndef TEST_ON_CUDA
/* Without a device it says so, to all ranks alike, and the host group goes on. */
static int refused(struct comm **out, struct comm *host, const struct dev_ops *dev,
                   struct dev_stream *stream, struct err *e)
{
    int rc = comm_open_nccl(out, host, &DEV_CUDA, NULL, e);
    if (rc != ERR_UNSUPPORTED || !strstr(e->msg, "no device"))
        return ERR_BUG;
    return comm_open_staged(out, host, dev, stream, e);
}
#endif

static void test_nccl(void **state)
{
    (void)state;
#ifdef TEST_ON_CUDA
    expect_all(comm_open_nccl, all_ops);
#else
    if (DEV_CUDA.is_here())
        skip();
    expect_all(refused, all_ops);
#endif
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_the_host),
        cmocka_unit_test(test_a_rank_that_dies),
#ifdef MILEPOST_WITH_NCCL
        cmocka_unit_test(test_nccl),
#endif
    };
    return cmocka_run_group_tests_name("kernels.simt.comm", tests, NULL, NULL);
}
