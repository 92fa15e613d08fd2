/* Equality is symmetric where it should be, same for the same seed, and ends by its budget.
 * Which answers are equal is in tests/cases and tests/golden/math. */
#include "verifier/math/equal.h"

#include "common/test.h"
#include "verifier/check.h"

#include <stdlib.h>
#include <string.h>

static enum math_verdict verdict(const char *want, const char *got, int decimals)
{
    struct arena a;
    arena_init(&a, 256 << 20);
    enum math_verdict v = math_equal(str_from(want), str_from(got), decimals, &a);
    arena_free(&a);
    return v;
}

static void test_symmetry(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1/2",       "0.5",         "\\sqrt{8}",   "2\\sqrt2",
        "x^2-1",     "(x-1)(x+1)",  "(1,2)",       "\\{1,2\\}",
        "x>1",       "(1,\\infty)", "\\pm 1",      "y=2x",
        "50\\%",     "3:4",         "\\text{odd}", "\\begin{pmatrix}1&2\\end{pmatrix}",
        "90^\\circ", "\\infty",     "1,234"};
    enum { N = sizeof texts / sizeof texts[0] };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (verdict(texts[i], texts[j], -1) != verdict(texts[j], texts[i], -1))
                fail_msg("%s and %s differ by direction", texts[i], texts[j]);
    for (int i = 0; i < N; i++)
        assert_int_equal(verdict(texts[i], texts[i], -1), MATH_SAME);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_int_equal(verdict("2/3", "0.67", 2), MATH_SAME);
    assert_int_equal(verdict("2/3", "0.66", 2), MATH_DIFFERENT);
    assert_int_equal(verdict("\\pi", "3.14", 2), MATH_SAME);
    assert_int_equal(verdict("\\pi", "3.14", -1), MATH_DIFFERENT);
}

static char *repeated(const char *piece, size_t bytes, const char *last)
{
    size_t len = strlen(piece), n = bytes / len;
    char *text = malloc(n * len + strlen(last) + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * len, piece, len);
    memcpy(text + n * len, last, strlen(last) + 1);
    return text;
}

/* Powers, factorials, roots and functions as large as the text allows. */
static void test_budget(void **state)
{
    (void)state;
    static const char *const piece[] = {
        "4999!+1/4998!+", "(x+1)^{60000}+", "(1/3)^{20000}+", "\\tan x+",
        "x^y^z+",         "(1,2),",         "\\pm 1,",        "\\sqrt[64]{2^{60000}}+"};
    enum { N = sizeof piece / sizeof piece[0] };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            char *want = repeated(piece[i], 3900, "1"), *got = repeated(piece[j], 3900, "2");
            uint64_t start = check_cpu_us();
            verdict(want, got, -1);
            if (check_cpu_us() - start > 3000000)
                fail_msg("%s against %s took too long", piece[i], piece[j]);
            free(want);
            free(got);
        }
}

static void test_tower_is_not_worked_out(void **state)
{
    (void)state;
    assert_int_not_equal(verdict("9^{9^{9^9}}", "9^{9^{9^8}}", -1), MATH_SAME);
    assert_int_not_equal(verdict("(5000!)!", "1", -1), MATH_SAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symmetry),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_tower_is_not_worked_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
