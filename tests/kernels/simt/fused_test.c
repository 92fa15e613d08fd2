/* Products that norm and split their rows themselves against the same rows split by a kernel
 * before: equal bits, for every type of weights, number of tokens and mode, at sizes that fill
 * nothing, and with rows chosen from others (the head's). Where they are used, and the launches a
 * layer takes. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/cuda/device.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"
#include "tests/kernels/simt/device.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 12 };
static struct kern_device *device;

static void *upload(const void *data, size_t n)
{
    struct err e;
    void *p = device_take(device, n, 1);
    assert_non_null(p);
    assert_ok(device_upload(device, p, data, n, &e), &e);
    return p;
}

/* The value of a row differs from its neighbours' by up to a thousand times. */
static float *upload_normals(struct rng *r, size_t n, size_t width)
{
    float *host = calloc(n, sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)(rng_normal(r) * (i / width % 3 ? 1 : 30) * (i % 61 ? 1 : 30));
    float *p = upload(host, n * sizeof *host);
    free(host);
    return p;
}

static float *results(const struct product_args *a)
{
    struct err e;
    size_t bytes = (size_t)a->n_tok * a->y_stride * sizeof(float);
    float *host = malloc(bytes);
    assert_non_null(host);
    device->dev->copy(host, a->y, bytes, DEV_TO_HOST, device->stream);
    assert_ok(device->dev->sync(device->stream, &e), &e);
    return host;
}

struct fused_case {
    uint32_t n_tok, rows, cols, mode;
    bool is_normed, is_picked;
};

static const struct fused_case CASES[] = {
    {1, 40, 288, PRODUCT_STORE, true, false}, {8, 34, 96, PRODUCT_GATE, true, false},
    {3, 7, 2112, PRODUCT_ADD, false, false},  {5, 33, 160, PRODUCT_STORE, true, true},
    {2, 64, 544, PRODUCT_GATE, false, true},  {7, 32, 32, PRODUCT_ADD, true, false},
};
/* Columns that fill no block of 32 or no 16 bytes: types without blocks. */
static const struct fused_case ODD[] = {
    {4, 9, 75, PRODUCT_STORE, true, false},
    {8, 33, 2075, PRODUCT_ADD, true, true},
    {1, 5, 1, PRODUCT_STORE, true, false},
    {6, 18, 72, PRODUCT_GATE, true, true},
};

static void compare(const struct fused_case *c, uint32_t dtype, const struct panel *w)
{
    struct rng r;
    uint32_t pick[MAX_ROWS];
    rng_seed(&r, c->cols + c->n_tok);
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        pick[i] = MAX_ROWS - 1 - i;
    float *zeros = calloc((size_t)c->n_tok * c->rows, sizeof *zeros), *got, *want;
    assert_non_null(zeros);
    struct product_args a = {.w = *w,
                             .x = upload_normals(&r, (size_t)MAX_ROWS * c->cols, c->cols),
                             .pick = c->is_picked ? upload(pick, sizeof pick) : NULL,
                             .norm = c->is_normed ? upload_normals(&r, c->cols, c->cols) : NULL,
                             .y = upload(zeros, (size_t)c->n_tok * c->rows * sizeof *zeros),
                             .x_stride = c->cols,
                             .y_stride = c->rows,
                             .n_tok = c->n_tok,
                             .mode = c->mode,
                             .eps = 1e-5f};
    device->kernels->product(&a, device->stream);
    got = results(&a);
    device->dev->copy(a.y, zeros, (size_t)c->n_tok * c->rows * sizeof *zeros, DEV_TO_DEVICE,
                      device->stream);
    a.split = device->split;
    a.sums = device->sums;
    device->kernels->split(&a, device->stream);
    device->kernels->product(&a, device->stream);
    want = results(&a);
    bool is_any = false;
    for (size_t i = 0; i < (size_t)c->n_tok * c->rows; i++)
        is_any = is_any || want[i] != 0;
    assert_true(is_any);
    if (memcmp(got, want, (size_t)c->n_tok * c->rows * sizeof *want) != 0)
        fail_msg("%s, %u tokens, [%u x %u], mode %u: other bits than split before",
                 dtype_name(dtype), c->n_tok, c->rows, c->cols, c->mode);
    free(got), free(want), free(zeros);
}

static void open_matrix(uint32_t dtype, uint32_t rows, uint32_t cols, const struct kern_matrix **m)
{
    struct err e;
    struct rng r;
    struct buf b;
    rng_seed(&r, dtype);
    buf_init(&b, 4 * MiB);
    tiny_random_blocks(&r, dtype, (size_t)rows * cols, 0.1, &b);
    assert_false(b.failed);
    const struct kern_part part = {dtype, rows, b.p};
    assert_ok(device_matrix(device, cols, &part, 1, m, &e), &e);
    buf_free(&b);
}

static void check(const struct fused_case *c, uint32_t dtype, bool is_fp8, unsigned order)
{
    const struct kern_matrix *m;
    char text[300];
    device->has_fp8_weights = is_fp8;
    simt_set_order(order);
    open_matrix(dtype, c->rows, c->cols, &m);
    compare(c, dtype, &m->panel[0]);
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s, order %u: %s", dtype_name(dtype), order, text);
}

/* Each type with three cases, each case with five types or six, in all orders. */
static void test_same_bits(void **state)
{
    static const uint32_t TYPES[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,
                                     DTYPE_BF16, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    enum { N_CASES = sizeof CASES / sizeof *CASES };
    (void)state;
    for (uint32_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (uint32_t i = 0; i < 3; i++) {
            struct fused_case c = CASES[(t + 2 * i) % N_CASES];
            if (TYPES[t] >= DTYPE_Q4_K)
                c.cols = (c.cols + 255) / 256 * 256;
            check(&c, TYPES[t], false, (t + i) % SIMT_ORDERS);
        }
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof ODD / sizeof *ODD; i++)
        for (unsigned order = 0; order < SIMT_ORDERS; order++)
            check(&ODD[i], DTYPE_BF16, order % 2, order);
}

static int begin(void **state)
{
    struct err e;
    const struct kern_options o = {.n_threads = 1, .max_tok = MAX_ROWS};
    (void)state;
    return device_open(&device, &o, &TEST_DEV, &TEST_KERNELS, &e);
}

static int end(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

/* Products of a large model, of a small one and of a mixture (kernels/README.md). */
static void test_choice(void **state)
{
    static const struct {
        uint32_t rows, cols, n_tok, n_pairs;
        bool is_fused;
    } WANT[] = {
        {6144, 4096, 4, 4, true},    {6144, 4096, 5, 5, false}, {28672, 4096, 1, 1, true},
        {28672, 4096, 2, 2, false},  {4096, 14336, 1, 1, true}, {4096, 14336, 2, 2, false},
        {128256, 4096, 1, 1, false}, {960, 576, 8, 8, true},    {960, 576, 9, 9, false},
        {49152, 576, 4, 4, true},    {1536, 2048, 1, 8, true},  {1536, 2048, 5, 40, true},
        {1536, 2048, 6, 48, false},  {10240, 8192, 1, 1, true}, {57344, 8192, 1, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
        const struct panel w = {.cols = WANT[i].cols};
        if (device_is_fused(&w, WANT[i].rows, WANT[i].n_tok, WANT[i].n_pairs) != WANT[i].is_fused)
            fail_msg("%u x %u, %u tokens", WANT[i].rows, WANT[i].cols, WANT[i].n_tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_odd_sizes),
                                       cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests_name("kernels.simt.fused", tests, begin, end);
}
