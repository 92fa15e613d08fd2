/* controller/policies/state_codec_test.c - the text of a policy's state: exact, strict, harmless.
 */
#include "controller/policies/state_codec.h"
#include "common/rng.h"
#include "controller/policies/test_bench.h"

#include <float.h>

/* Encode, decode into a fresh policy, go on with both: the same bits and the same actions. */
static void test_state_is_exact(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.proposes = true;
    s.target = 0.7;
    open_bench(&b, &s);
    b.mean[0] = 0.31;
    b.mean[1] = 0.52;
    for (int i = 0; i < 900; i++) {
        row(&b);
        if (find(&b, ACTION_START_CANARY))
            start(&b, "own", 2, 1.4, false, true);
        if (i % 60 != 59)
            continue;
        json_t *text = policy_state_encode(b.p);
        struct policy *copy = NULL;
        struct err e = {0};
        assert_ok(policy_open(&copy, &s, &e), &e);
        assert_ok(policy_state_decode(copy, text, &e), &e);
        json_t *again = policy_state_encode(copy);
        assert_true(json_equal(text, again));
        policy_close(b.p); /* from here on the copy serves */
        b.p = copy;
        json_decref(text);
        json_decref(again);
    }
    json_t *resumed = policy_state_encode(b.p);
    struct bench plain;
    open_bench(&plain, &s);
    plain.mean[0] = 0.31;
    plain.mean[1] = 0.52;
    for (int i = 0; i < 900; i++) {
        row(&plain);
        if (find(&plain, ACTION_START_CANARY))
            start(&plain, "own", 2, 1.4, false, true);
    }
    json_t *straight = policy_state_encode(plain.p);
    assert_true(json_equal(resumed, straight));
    json_decref(resumed);
    json_decref(straight);
    policy_close(b.p);
    policy_close(plain.p);
}

struct numbers {
    double real;
    uint64_t whole;
    char text[16];
};
static const struct state_field NUMBERS_FIELDS[] = {STATE_NUMBER(struct numbers, real, STATE_F64),
                                                    STATE_NUMBER(struct numbers, whole, STATE_U64),
                                                    STATE_CHARS(struct numbers, text), STATE_END};

/* Databases hold what printf wrote: the same text for every double and integer. */
static void test_the_text_is_that_of_printf(void **state)
{
    (void)state;
    static const double REALS[] = {
        0.0,     -0.0,  1.0,        -1.0,    0.1,     2.0,      3.5,         0x1p-1022,
        0x1p-60, 1e300, 0x1p-1074,  -1e-310, 1.0 / 3, INFINITY, -INFINITY,   NAN,
        1023.0,  1e17,  0x1.8p-500, 1e-5,    DBL_MAX, DBL_MIN,  DBL_EPSILON, -0x1.fffp+9};
    struct rng r;
    rng_seed(&r, 5);
    for (size_t i = 0; i < 20000; i++) {
        struct numbers n = {.whole = rng_u64(&r) >> rng_below(&r, 64), .text = "a \"b\" \n"};
        uint64_t bits = rng_u64(&r);
        memcpy(&n.real, &bits, sizeof bits);
        if (i < sizeof REALS / sizeof *REALS)
            n.real = REALS[i];
        else if (i % 2)
            n.real = (double)rng_below(&r, 1000) / 8.0;
        char want[160];
        snprintf(want, sizeof want,
                 "{\"real\":\"%a\",\"whole\":\"%llx\",\"text\":\"a \\\"b\\\" \\n\"}", n.real,
                 (unsigned long long)n.whole);
        struct buf text;
        buf_init(&text, KiB);
        state_write(NUMBERS_FIELDS, &n, &text);
        assert_str(buf_str(&text), want);
        buf_free(&text);
    }
}

/* ... and a law's whole state that of the writer of JSON values. */
static void test_the_text_is_that_of_json_write(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    struct err e = {0};
    struct buf mine, again;
    open_bench(&b, &s);
    for (int i = 0; i < 300; i++)
        row(&b);
    buf_init(&mine, STATE_MAX_BYTES);
    buf_init(&again, STATE_MAX_BYTES);
    policy_state_write(b.p, &mine);
    json_t *v = policy_state_encode(b.p);
    assert_ok(json_write(v, &again, &e), &e);
    assert_int_equal(mine.n, again.n);
    assert_memory_equal(mine.p, again.p, mine.n);
    json_decref(v);
    buf_free(&mine);
    buf_free(&again);
    policy_close(b.p);
}

static void test_corrupt_state_is_refused(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    struct err e = {0};
    open_bench(&b, &s);
    json_t *good = policy_state_encode(b.p);
    static const char *const values[] = {"", "zz", "-1", "1ffffffffffffffffff", NULL};
    for (int i = 0; values[i]; i++) {
        json_t *v = json_deep_copy(good);
        json_object_set_new(v, "n_strata", json_string(values[i]));
        assert_int_equal(policy_state_decode(b.p, v, &e), ERR_CORRUPT);
        json_decref(v);
    }
    json_t *v = json_deep_copy(good);
    json_object_del(v, "watch");
    assert_int_equal(policy_state_decode(b.p, v, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "watch"));
    json_decref(v);
    json_t *same = policy_state_encode(b.p);
    assert_true(json_equal(same, good));
    json_decref(same);
    json_decref(good);
    policy_close(b.p);
}

static json_t *leaf_at(json_t *v, size_t *skip, json_t **holder, const char **key, size_t *index)
{
    const char *k;
    size_t i;
    json_t *child;
    json_t *found;
    if (json_is_object(v))
        json_object_foreach(v, k, child)
        {
            *holder = v;
            *key = k;
            if (json_is_string(child) && (*skip)-- == 0)
                return child;
            if (!json_is_string(child) && (found = leaf_at(child, skip, holder, key, index)))
                return found;
        }
    if (json_is_array(v))
        json_array_foreach(v, i, child)
        {
            *holder = v;
            *key = NULL;
            *index = i;
            if (json_is_string(child) && (*skip)-- == 0)
                return child;
            if (!json_is_string(child) && (found = leaf_at(child, skip, holder, key, index)))
                return found;
        }
    return NULL;
}

/* Any single leaf of the text replaced by an extreme value: refused, or harmless (run under ASan).
 */
static void test_damaged_state_is_harmless(void **state)
{
    (void)state;
    static const char *const EXTREME[] = {"ffffffff", "0x1p+1023", "nan", "-0x1p+0"};
    struct bench b;
    struct policy_settings s = quick();
    s.proposes = true;
    s.target = 0.9;
    open_bench(&b, &s);
    start(&b, "x", 2, 1.0, false, false);
    for (int i = 0; i < 150; i++)
        row(&b);
    json_t *good = policy_state_encode(b.p);
    int n_used = 0;
    for (size_t n = 0;; n++) {
        json_t *v = json_deep_copy(good);
        json_t *holder = NULL;
        const char *key = NULL;
        size_t index = 0;
        size_t skip = n;
        if (!leaf_at(v, &skip, &holder, &key, &index)) {
            json_decref(v);
            break;
        }
        json_t *value = json_string(EXTREME[n % 4]);
        assert_int_equal(key ? json_object_set_new(holder, key, value)
                             : json_array_set_new(holder, index, value),
                         0);
        struct bench copy = b;
        struct err e = {0};
        assert_ok(policy_open(&copy.p, &s, &e), &e);
        if (policy_state_decode(copy.p, v, &e) == ERR_OK) {
            n_used++;
            for (int i = 0; i < 40; i++)
                row(&copy);
        }
        policy_close(copy.p);
        json_decref(v);
    }
    assert_true(n_used > 50);
    json_decref(good);
    policy_close(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_is_exact),
        cmocka_unit_test(test_the_text_is_that_of_printf),
        cmocka_unit_test(test_the_text_is_that_of_json_write),
        cmocka_unit_test(test_corrupt_state_is_refused),
        cmocka_unit_test(test_damaged_state_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
