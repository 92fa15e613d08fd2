/* The sum over the ranks' memory, with one, two, four and eight ranks in one launch: all get the
 * same bits, and they are those of a sum in the order of the ranks (which is what kernels/comm
 * gives) added to the residual; the norm keeps 2e-6 of the reference. Then three processes on the
 * emulator, each late in turn, so that one that does not wait, or runs ahead, is seen. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/comm/comm.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 3 };
static const float EPS = 1e-5f;
static const double NORM = 2e-6;

struct sizes {
    uint32_t n_rank, n_tok, width;
};

struct ranks {
    struct sizes s;
    struct dev_stream *stream;
    float *part[2][MAX_PEERS], *x[MAX_PEERS], *y[MAX_PEERS], *norm; /* device */
    unsigned *flag[MAX_PEERS];
    float *host_part[MAX_PEERS], *host_x, *want_x, *got, *host_norm;
};

static size_t count(const struct ranks *k)
{
    return (size_t)k->s.n_tok * k->s.width;
}

static float *numbers(struct rng *r, size_t n)
{
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)rng_normal(r);
    return p;
}

static void *on_device(struct ranks *k, const void *from, size_t bytes)
{
    void *p = TEST_DEV.alloc(bytes);
    assert_non_null(p);
    if (from)
        TEST_DEV.copy(p, from, bytes, DEV_TO_DEVICE, k->stream);
    else
        TEST_DEV.fill(p, 0, bytes, k->stream);
    return p;
}

static void open_ranks(struct ranks *k, struct sizes s, struct rng *r)
{
    *k = (struct ranks){.s = s, .stream = TEST_DEV.stream_open()};
    size_t n = count(k), bytes = n * sizeof(float);
    k->host_x = numbers(r, n);
    k->want_x = malloc(bytes);
    k->got = malloc(bytes);
    k->host_norm = numbers(r, s.width);
    assert_true(k->want_x && k->got);
    k->norm = on_device(k, k->host_norm, s.width * sizeof(float));
    for (uint32_t i = 0; i < s.n_rank; i++) {
        k->host_part[i] = numbers(r, n);
        for (int half = 0; half < 2; half++)
            k->part[half][i] = on_device(k, NULL, bytes);
        k->x[i] = on_device(k, k->host_x, bytes);
        k->y[i] = on_device(k, NULL, bytes);
        k->flag[i] = on_device(k, NULL, PEER_BLOCKS * MAX_PEERS * sizeof(unsigned));
    }
    struct err e;
    assert_ok(TEST_DEV.sync(k->stream, &e), &e); /* before what was copied changes */
}

static void close_ranks(struct ranks *k)
{
    for (uint32_t i = 0; i < k->s.n_rank; i++) {
        for (int half = 0; half < 2; half++)
            TEST_DEV.release(k->part[half][i]);
        TEST_DEV.release(k->x[i]);
        TEST_DEV.release(k->y[i]);
        TEST_DEV.release(k->flag[i]);
        free(k->host_part[i]);
    }
    TEST_DEV.release(k->norm);
    TEST_DEV.stream_close(k->stream);
    free(k->host_x), free(k->want_x), free(k->got), free(k->host_norm);
}

static void launch(struct ranks *k, uint32_t turn, bool has_norm)
{
    struct peers_ranks a = {.n_here = k->s.n_rank};
    size_t bytes = count(k) * sizeof(float);
    for (uint32_t i = 0; i < k->s.n_rank; i++) {
        a.rank[i] = (struct peers_args){.x = k->x[i],
                                        .norm = has_norm ? k->norm : NULL,
                                        .y = has_norm ? k->y[i] : NULL,
                                        .rank = i,
                                        .n_rank = k->s.n_rank,
                                        .width = k->s.width,
                                        .n_tok = k->s.n_tok,
                                        .turn = turn,
                                        .eps = EPS};
        for (uint32_t r = 0; r < k->s.n_rank; r++) {
            a.rank[i].part[r] = k->part[turn % 2][r];
            a.rank[i].flag[r] = k->flag[r];
        }
        TEST_DEV.copy(k->part[turn % 2][i], k->host_part[i], bytes, DEV_TO_DEVICE, k->stream);
    }
    TEST_KERNELS.sum_of_peers(&a, k->stream);
}

static void get(struct ranks *k, const float *device)
{
    struct err e;
    char text[300];
    TEST_DEV.copy(k->got, device, count(k) * sizeof *k->got, DEV_TO_HOST, k->stream);
    assert_ok(TEST_DEV.sync(k->stream, &e), &e);
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s", text);
}

static void advance(struct ranks *k)
{
    for (size_t i = 0; i < count(k); i++) {
        float sum = k->host_part[0][i];
        for (uint32_t r = 1; r < k->s.n_rank; r++)
            sum += k->host_part[r][i];
        k->host_x[i] += sum;
    }
}

static double norm_distance(const struct ranks *k)
{
    double error = 0, size = 0;
    for (uint32_t t = 0; t < k->s.n_tok; t++) {
        const float *x = k->host_x + (size_t)t * k->s.width, *y = k->got + (size_t)t * k->s.width;
        double squares = 0;
        for (uint32_t i = 0; i < k->s.width; i++)
            squares += (double)x[i] * (double)x[i];
        double factor = 1 / sqrt(squares / k->s.width + (double)EPS);
        for (uint32_t i = 0; i < k->s.width; i++) {
            double want = (double)x[i] * factor * (double)k->host_norm[i];
            error += ((double)y[i] - want) * ((double)y[i] - want);
            size += want * want;
        }
    }
    return sqrt(error / size);
}

static void check_turn(struct ranks *k, uint32_t turn, bool has_norm)
{
    size_t bytes = count(k) * sizeof *k->got;
    launch(k, turn, has_norm);
    advance(k);
    for (uint32_t r = 0; r < k->s.n_rank; r++) {
        get(k, k->x[r]);
        if (memcmp(k->got, k->host_x, bytes) != 0)
            fail_msg("%u ranks, %u tokens of %u, turn %u: rank %u has other bits", k->s.n_rank,
                     k->s.n_tok, k->s.width, turn, r);
        if (!has_norm)
            continue;
        get(k, k->y[r]);
        if (r == 0) {
            assert_true(norm_distance(k) < NORM);
            memcpy(k->want_x, k->got, bytes);
        }
        assert_memory_equal(k->got, k->want_x, bytes);
    }
}

static void check(struct sizes s, unsigned n_orders)
{
    struct rng r;
    for (unsigned order = 0; order < n_orders; order++) {
        struct ranks k;
        simt_set_order(order);
        rng_seed(&r, s.n_rank * 100 + s.n_tok);
        open_ranks(&k, s, &r);
        for (uint32_t turn = 1; turn <= TURNS; turn++) {
            check_turn(&k, turn, turn != 2);
            for (uint32_t i = 0; i < s.n_rank; i++) /* the next parts are others */
                for (size_t j = 0; j < count(&k); j++)
                    k.host_part[i][j] = k.host_part[i][j] * 0.7f + (float)turn;
        }
        close_ranks(&k);
    }
}

static void test_one_to_eight_ranks(void **state)
{
    (void)state;
    check((struct sizes){1, 3, 64}, 2);
    check((struct sizes){2, 1, 68}, SIMT_ORDERS);
    check((struct sizes){4, 5, 132}, SIMT_ORDERS);
    check((struct sizes){8, 2, 64}, SIMT_ORDERS);
}

/* Rows for more than one round of a thread, tokens for more than one of a block. */
static void test_large(void **state)
{
    (void)state;
    check((struct sizes){2, 2, 2048}, 2);
    check((struct sizes){2, PEER_BLOCKS + 3, 36}, 2);
}

#ifndef TEST_ON_CUDA
enum { N_PROCESS = 3, WIDTH = 132, TOKENS = 5, LATE_US = 30000, LONG_TURNS = 7 };

/* What of a rank the others must know. */
struct window {
    float *part[2];
    unsigned *flag;
};

/* Part of rank r at a turn: every process knows them all. */
static float part_at(uint32_t r, uint32_t turn, size_t i)
{
    return (float)((i * 31 + r * 7 + turn * 13) % 97) * 0.37f;
}

static void put_part(const struct window *own, uint32_t rank, uint32_t turn, float *host,
                     struct dev_stream *s)
{
    struct err e;
    for (size_t i = 0; i < TOKENS * WIDTH; i++)
        host[i] = part_at(rank, turn, i);
    TEST_DEV.copy(own->part[turn % 2], host, TOKENS * WIDTH * sizeof *host, DEV_TO_DEVICE, s);
    if (TEST_DEV.sync(s, &e) != ERR_OK)
        abort();
}

static int run_turn(const struct window *all, struct comm *c, uint32_t turn, float *x, float *host,
                    float *want, struct dev_stream *s)
{
    struct peers_ranks a = {.n_here = 1};
    struct err e;
    a.rank[0] = (struct peers_args){
        .x = x, .rank = c->rank, .n_rank = c->size, .width = WIDTH, .n_tok = TOKENS, .turn = turn};
    for (uint32_t r = 0; r < c->size; r++) {
        a.rank[0].part[r] = all[r].part[turn % 2];
        a.rank[0].flag[r] = all[r].flag;
    }
    if (turn % c->size == c->rank)
        usleep(LATE_US);
    put_part(&all[c->rank], c->rank, turn, host, s);
    TEST_KERNELS.sum_of_peers(&a, s);
    TEST_DEV.copy(host, x, TOKENS * WIDTH * sizeof *host, DEV_TO_HOST, s);
    if (TEST_DEV.sync(s, &e) != ERR_OK)
        return 2;
    for (size_t i = 0; i < TOKENS * WIDTH; i++) {
        float sum = part_at(0, turn, i);
        for (uint32_t r = 1; r < c->size; r++)
            sum += part_at(r, turn, i);
        want[i] += sum;
    }
    return memcmp(host, want, TOKENS * WIDTH * sizeof *host) == 0 ? 0 : 3;
}

static int run_process(const char *id, uint32_t rank)
{
    struct comm *c;
    struct window own, all[N_PROCESS];
    size_t bytes = TOKENS * WIDTH * sizeof(float);
    struct err e;
    int code = 0;
    simt_take_slice(rank);
    simt_set_order(SIMT_SHUFFLED + rank);
    if (COMM_SHM.join(&c, id, rank, N_PROCESS, NULL) != ERR_OK)
        return 99;
    struct dev_stream *s = TEST_DEV.stream_open();
    float *x = TEST_DEV.alloc(bytes), *host = calloc(TOKENS * WIDTH, sizeof *host),
          *want = calloc(TOKENS * WIDTH, sizeof *want);
    own.part[0] = TEST_DEV.alloc(bytes);
    own.part[1] = TEST_DEV.alloc(bytes);
    own.flag = TEST_DEV.alloc(PEER_BLOCKS * MAX_PEERS * sizeof *own.flag);
    TEST_DEV.fill(x, 0, bytes, s);
    TEST_DEV.fill(own.flag, 0, PEER_BLOCKS * MAX_PEERS * sizeof *own.flag, s);
    if (TEST_DEV.sync(s, &e) != ERR_OK ||
        COMM_SHM.all_gather(c, &own, sizeof own, all, COMM_BYTE, &e) != ERR_OK)
        return 1;
    for (uint32_t turn = 1; turn <= LONG_TURNS && code == 0; turn++)
        code = run_turn(all, c, turn, x, host, want, s);
    COMM_SHM.leave(c);
    return code;
}

/* In a child of its own, as the emulator's memory must be shared before it is used. */
static int run_processes(void)
{
    char id[COMM_ID_BYTES];
    pid_t pid[N_PROCESS];
    int status, worst = 0;
    if (!simt_share_heap(N_PROCESS) || COMM_SHM.make_id(N_PROCESS, id, NULL) != ERR_OK)
        return 98;
    for (uint32_t r = 0; r < N_PROCESS; r++) {
        pid[r] = fork();
        if (pid[r] == 0)
            _exit(run_process(id, r));
    }
    for (uint32_t r = 0; r < N_PROCESS; r++) {
        waitpid(pid[r], &status, 0);
        worst = status ? (WIFEXITED(status) ? WEXITSTATUS(status) : 97) : worst;
    }
    return worst;
}

static void test_processes_that_are_late(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run_processes());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef TEST_ON_CUDA
        cmocka_unit_test(test_processes_that_are_late), /* first: it shares unused memory */
#endif
        cmocka_unit_test(test_one_to_eight_ranks), cmocka_unit_test(test_large)};
    return cmocka_run_group_tests_name("kernels.simt.peers", tests, NULL, NULL);
}
