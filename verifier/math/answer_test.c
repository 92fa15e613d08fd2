/* Which part of a text is taken as its answer. */
#include "verifier/math/answer.h"

#include "common/test.h"

struct row {
    const char *text, *answer; /* NULL: none */
};

static void test_answers(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"so \\boxed{5}.", "5"},
        {"\\boxed{1} and \\boxed{2}", "1 , 2"},
        {"\\boxed{1}. Then later \\boxed{2}", "2"},
        {"\\boxed{1} no no no no no \\boxed{2}", "2"},
        {"\\boxed{\\frac{1}{2}} done", "\\frac{1}{2}"},
        {"#### 42\nand more 7", "42"},
        {"The answer is $x$. Wait, the answer is $y+1$.", "y+1"},
        {"**Answer:** 4.", "4"},
        {"Final Answer: The largest $n$ is 34.", "34"},
        {"Answer \\[ 9 \\]", "9"},
        {"It costs $5 and he pays $10 for it", "10"},
        {"between $12$ and $13$ it must be somewhere", "12 , 13"},
        {"so the number is 10 which is 1,000.99m", "1,000.99"},
        {"2**3", "2**3"},
        {"\\boxed{", NULL},
        {"\\boxed{1} \\boxed{2", NULL},
        {"", NULL},
        {"   \n", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena a;
        struct str got = STR("");
        arena_init(&a, 1 << 20);
        bool found = math_answer(str_from(rows[i].text), &a, &got) == MATH_ANSWER_FOUND;
        if (found != (rows[i].answer != NULL) || (found && !str_eq_c(got, rows[i].answer)))
            fail_msg("'%s': found '" STR_FMT "'", rows[i].text, STR_ARG(got));
        arena_free(&a);
    }
}

static void test_open_box_is_told_apart(void **state)
{
    (void)state;
    struct arena a;
    struct str got;
    arena_init(&a, 1 << 20);
    assert_int_equal(math_answer(STR("\\boxed{1"), &a, &got), MATH_ANSWER_OPEN_BOX);
    assert_int_equal(math_answer(STR(""), &a, &got), MATH_ANSWER_NONE);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_open_box_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
