/* Do the emulator's host bodies and the device's instructions do the same? Each case of
 * ptx_cases.cu with random inputs: here the emulator in six orders against what the instruction
 * set's text says; on a device (TEST_ON_CUDA) its output against the emulator's, bit by bit. */
#include "common/test.h"

#include "common/rng.h"
#include "tests/kernels/simt/device.h"
#include "tests/kernels/simt/ptx_cases.h"

#include <stdio.h>
#include <string.h>

enum { SEEDS = 4 };

static uint32_t small_bf16(struct rng *r)
{
    float f = (float)rng_below(r, 17) - 8;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits >> 16; /* exact: at most four bits */
}

/* Sizes from below the smallest half to above the largest, and what is no number. */
static uint32_t some_float(struct rng *r)
{
    static const uint32_t EDGES[] = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                     0x477FE000, 0x477FF000, 0x33000000, 0x43E00000, 0x43E80000};
    if (rng_below(r, 8) == 0)
        return EDGES[rng_below(r, sizeof EDGES / sizeof *EDGES)];
    return (uint32_t)rng_below(r, 2) << 31 | (uint32_t)(100 + rng_below(r, 50)) << 23 |
           (uint32_t)rng_below(r, 1 << 23);
}

static void fill(struct rng *r, enum ptx_input kind, uint32_t *in, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (kind == PTX_BITS)
            in[i] = (uint32_t)rng_below(r, UINT64_C(1) << 32);
        else if (kind == PTX_SMALL)
            in[i] = small_bf16(r) | small_bf16(r) << 16;
        else
            in[i] = some_float(r);
    }
}

static void run_on(const struct dev_ops *dev, const struct ptx_case *c, const uint32_t *in,
                   uint32_t *out)
{
    struct err e;
    struct dev_stream *s = dev->stream_open();
    uint32_t *from = dev->alloc(PTX_MAX_WORDS * sizeof *from),
             *to = dev->alloc(PTX_MAX_WORDS * sizeof *to);
    assert_non_null(s);
    assert_non_null(from);
    assert_non_null(to);
    memset(out, 0xA5, c->n_out * sizeof *out);
    dev->copy(from, in, c->n_in * sizeof *in, DEV_TO_DEVICE, s);
    dev->copy(to, out, c->n_out * sizeof *out, DEV_TO_DEVICE, s);
    c->launch(from, to, s);
    dev->copy(out, to, c->n_out * sizeof *out, DEV_TO_HOST, s);
    assert_ok(dev->sync(s, &e), &e);
    dev->release(from);
    dev->release(to);
    dev->stream_close(s);
}

static void compare(const struct ptx_case *c, const char *what, const uint32_t *in,
                    const uint32_t *got, const uint32_t *want)
{
    unsigned n_wrong = 0, first = 0;
    for (unsigned i = c->n_out; i-- > 0;) {
        if (got[i] != want[i]) {
            n_wrong++;
            first = i;
        }
    }
    if (n_wrong)
        fail_msg("%s: %u of %u words differ from %s, first word %u: %08x, want %08x (in %08x)",
                 c->name, n_wrong, c->n_out, what, first, got[first], want[first],
                 in[first % c->n_in]);
}

static void check_emulator(unsigned i, const uint32_t *in, uint32_t *emulated)
{
    const struct ptx_case *c = &PTX_CASES_SIMT[i];
    static uint32_t want[PTX_MAX_WORDS];
    run_on(&DEV_SIMT, c, in, emulated);
    if (!c->expect)
        return;
    c->expect(in, want);
    compare(c, "the instruction set's text", in, emulated, want);
}

#ifdef TEST_ON_CUDA
static void check_all(unsigned i, const uint32_t *in)
{
    static uint32_t emulated[PTX_MAX_WORDS], got[PTX_MAX_WORDS];
    check_emulator(i, in, emulated);
    run_on(&DEV_CUDA, &PTX_CASES_CUDA[i], in, got);
    compare(&PTX_CASES_CUDA[i], "the emulator", in, got, emulated);
}
#else
static void check_all(unsigned i, const uint32_t *in)
{
    static uint32_t first[PTX_MAX_WORDS], other[PTX_MAX_WORDS];
    char text[300];
    for (unsigned order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order(order);
        check_emulator(i, in, order ? other : first);
        if (simt_take_reports(text, sizeof text))
            fail_msg("%s, order %u: %s", PTX_CASES_SIMT[i].name, order, text);
        if (order)
            compare(&PTX_CASES_SIMT[i], "another order", in, other, first);
    }
}
#endif

static void check_case(unsigned i)
{
    static uint32_t in[PTX_MAX_WORDS];
    const struct ptx_case *c = &PTX_CASES_SIMT[i];
    struct rng r;
    assert_true(c->n_in <= PTX_MAX_WORDS && c->n_out <= PTX_MAX_WORDS);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rng_seed(&r, seed * 1000 + i);
        fill(&r, c->input, in, c->n_in);
        check_all(i, in);
    }
    print_message("%s: same bits\n", c->name);
}

/* A test for each kind, so that one that is wrong or hangs does not hide the others. */
static void check_range(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to && PTX_CASES_SIMT[i].name; i++)
        check_case(i);
}

static void test_memory(void **state)
{
    (void)state;
    check_range(0, 3);
}

static void test_warps(void **state)
{
    (void)state;
    check_range(3, 8);
}

static void test_numbers(void **state)
{
    (void)state;
    check_range(8, 10);
}

static void test_mbarrier(void **state)
{
    (void)state;
    check_range(10, 11);
}

static void test_tensor_load(void **state)
{
    (void)state;
    check_range(11, 12);
}

static void test_the_rest(void **state)
{
    (void)state;
    check_range(12, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),      cmocka_unit_test(test_warps),
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_mbarrier),
        cmocka_unit_test(test_tensor_load), cmocka_unit_test(test_the_rest),
    };
    return cmocka_run_group_tests_name("kernels.simt.ptx", tests, NULL, NULL);
}
