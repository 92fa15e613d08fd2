/* What is read without a tree is what the tree gives, to the bit; anything else is left to it. */
#include "controller/policies/state_read.h"

#include "common/rng.h"
#include "controller/policies/test_bench.h"

#include <float.h>
#include <string.h>

struct point {
    double x;
    uint64_t n;
};

struct sample {
    double real, pair[2];
    uint64_t whole;
    uint32_t narrow, n_point;
    bool flag;
    char text[16];
    struct point point[4], one;
};

static const struct state_field POINT[] = {STATE_NUMBER(struct point, x, STATE_F64),
                                           STATE_NUMBER(struct point, n, STATE_U64), STATE_END};
static const struct state_field SAMPLE[] = {STATE_NUMBER(struct sample, real, STATE_F64),
                                            STATE_NUMBERS(struct sample, pair, STATE_F64, 2),
                                            STATE_NUMBER(struct sample, whole, STATE_U64),
                                            STATE_LIMITED(struct sample, narrow, STATE_U32, 100),
                                            STATE_LIMITED(struct sample, n_point, STATE_U32, 4),
                                            STATE_NUMBER(struct sample, flag, STATE_BOOL),
                                            STATE_CHARS(struct sample, text),
                                            STATE_USED(struct sample, point, 4, n_point, POINT),
                                            STATE_SUB(struct sample, one, POINT),
                                            STATE_END};

static bool read_directly(struct str text, struct sample *out)
{
    memset(out, 0, sizeof *out);
    return state_read_fields(SAMPLE, &text, out) && str_eq_c(text, "}");
}

static bool read_by_tree(struct str text, struct sample *out)
{
    json_t *v = NULL;
    memset(out, 0, sizeof *out);
    bool is_good =
        json_parse(text, 0, &v, NULL) == ERR_OK && state_decode(SAMPLE, v, out, NULL) == ERR_OK;
    json_decref(v);
    return is_good;
}

static double real_of(struct rng *r, size_t i)
{
    static const double REALS[] = {0.0,       -0.0,      1.0,     -1.0,       0x1p-1022,
                                   0x1p-1074, -1e-310,   1.0 / 3, INFINITY,   -INFINITY,
                                   NAN,       DBL_MAX,   DBL_MIN, -DBL_MAX,   0x1.8p-500,
                                   1e17,      0x1p+1023, 1e-5,    -0x1p-1000, 1023.0};
    double d;
    uint64_t bits = rng_u64(r);
    memcpy(&d, &bits, sizeof d);
    return i < sizeof REALS / sizeof *REALS ? REALS[i] : d;
}

static void fill(struct sample *s, struct rng *r, size_t i)
{
    memset(s, 0, sizeof *s);
    s->real = real_of(r, i);
    s->pair[1] = (double)rng_below(r, 1000) / 8.0;
    s->whole = rng_u64(r) >> rng_below(r, 64);
    s->narrow = (uint32_t)rng_below(r, 101);
    s->n_point = (uint32_t)rng_below(r, 5);
    s->flag = rng_below(r, 2) == 1;
    snprintf(s->text, sizeof s->text, "t%u", (unsigned)rng_below(r, 1000));
    for (uint32_t k = 0; k < s->n_point; k++)
        s->point[k] = (struct point){-(double)rng_below(r, 1000) / 3.0, rng_u64(r)};
}

static void test_every_number_comes_back(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 3);
    for (size_t i = 0; i < 5000; i++) {
        struct sample in, direct, tree;
        struct buf text;
        fill(&in, &r, i);
        buf_init(&text, 4 * KiB);
        state_write(SAMPLE, &in, &text);
        assert_true(read_directly(buf_str(&text), &direct));
        assert_true(read_by_tree(buf_str(&text), &tree));
        assert_memory_equal(&direct, &tree, sizeof tree);
        if (!isnan(in.real))
            assert_memory_equal(&direct, &in, sizeof in);
        buf_free(&text);
    }
}

/* One byte another, or the rest cut off: refused, or the same as by the tree. */
static void test_damage_is_left_to_the_tree(void **state)
{
    (void)state;
    static const char OTHER[] = "0f\"\\ ,}]pxA-.n\x01\xff";
    struct rng r;
    size_t n_taken = 0, n_tried = 0;
    rng_seed(&r, 4);
    for (size_t i = 0; i < 12; i++) {
        struct sample in, direct, tree;
        struct buf text;
        fill(&in, &r, i);
        buf_init(&text, 4 * KiB);
        state_write(SAMPLE, &in, &text);
        for (size_t at = 0; at < text.n; at++) {
            char was = text.p[at];
            assert_false(read_directly(str_slice(buf_str(&text), 0, at), &direct));
            for (size_t k = 0; k < sizeof OTHER - 1; k++) {
                text.p[at] = OTHER[k];
                n_tried++;
                if (!read_directly(buf_str(&text), &direct))
                    continue;
                n_taken++;
                assert_true(read_by_tree(buf_str(&text), &tree));
                assert_memory_equal(&direct, &tree, sizeof tree);
            }
            text.p[at] = was;
        }
        buf_free(&text);
    }
    assert_true(n_taken > 500 && n_tried - n_taken > 500);
}

static void test_other_forms_are_read_too(void **state)
{
    (void)state;
    static const char TEXT[] =
        "{ \"one\":{\"n\":\"2\",\"x\":\"0x1p+0\"}, \"point\":[], \"text\":\"\\u0061\", "
        "\"flag\":\"1\", \"n_point\":\"0\", \"narrow\":\"5\", \"whole\":\"0A\", "
        "\"pair\":[\"1\",\"2.5\"], \"real\":\"0x1.80p+0\", \"later\":[] }";
    struct sample s = {0};
    struct err e = {0};
    assert_ok(state_read(SAMPLE, str_from(TEXT), &s, sizeof s, &e), &e);
    assert_true(s.real == 1.5 && s.pair[1] == 2.5 && s.whole == 10 && s.one.n == 2);
    assert_string_equal(s.text, "a");
    memset(&s, 0, sizeof s);
    assert_int_equal(state_read(SAMPLE, STR("{\"real\":\"0x1p+0\"}"), &s, sizeof s, &e),
                     ERR_CORRUPT);
    assert_int_equal(state_read(SAMPLE, STR("{\"real"), &s, sizeof s, &e), ERR_INVALID);
}

/* A law's whole state, with a trial and with an experiment in it: without a tree, and the same. */
static void test_a_law_goes_on_from_its_text(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    struct err e = {0};
    struct buf text, again;
    buf_init(&text, STATE_MAX_BYTES);
    buf_init(&again, STATE_MAX_BYTES);
    s.proposes = true;
    s.target = 0.7;
    open_bench(&b, &s);
    for (int i = 0; i < 900; i++) {
        struct policy *copy = NULL;
        row(&b);
        if (find(&b, ACTION_START_CANARY))
            start(&b, "own", 2, 1.4, false, true);
        if (i % 60 != 59)
            continue;
        buf_reset(&text);
        buf_reset(&again);
        policy_state_write(b.p, &text);
        assert_ok(policy_open(&copy, &s, &e), &e);
        assert_ok(policy_state_read(copy, buf_str(&text), &e), &e);
        policy_state_write(copy, &again);
        assert_true(str_eq(buf_str(&text), buf_str(&again)));
        assert_int_equal(policy_state_read(copy, str_slice(buf_str(&text), 0, text.n - 1), &e),
                         ERR_INVALID);
        policy_close(b.p);
        b.p = copy;
    }
    policy_close(b.p);
    buf_free(&text);
    buf_free(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_comes_back),
        cmocka_unit_test(test_damage_is_left_to_the_tree),
        cmocka_unit_test(test_other_forms_are_read_too),
        cmocka_unit_test(test_a_law_goes_on_from_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
