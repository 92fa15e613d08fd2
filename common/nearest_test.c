/* Suggestions: the usual slips are recognised, unrelated words are not. */
#include "common/nearest.h"

#include "common/test.h"

static const char *const names[] = {"temperature", "top_p", "top_k", "max_new_tokens"};

static void test_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"temprature", "temperature"},
        {"temperatrue", "temperature"},
        {"top-p", "top_p"},
        {"topk", "top_k"},
        {"max_tokens", "max_new_tokens"},
        {"max_new_token", "max_new_tokens"},
        {"colour", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = nearest_name(str_from(cases[i].typed), names, 4);
        if (!cases[i].meant)
            assert_null(got);
        else
            assert_string_equal(got, cases[i].meant);
    }
}

static void test_long_input_is_safe(void **state)
{
    (void)state;
    char text[500];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = 't';
    assert_null(nearest_name((struct str){text, sizeof text}, names, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_long_input_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
