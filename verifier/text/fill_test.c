/* Slots are filled once; nothing that is filled in is read as a template. */
#include "common/test.h"

#include "verifier/text/fill.h"

static void test_fill(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64 * 1024);
    const struct fill_slot slots[] = {{"prompt", STR("{response}")},
                                      {"response", STR("r{prompt}")}};
    assert_str(text_fill(STR("<{prompt}|{response}>"), slots, 2, &a), "<{response}|r{prompt}>");
    assert_str(text_fill(STR("{promp} {prompt {} }{prompt}"), slots, 2, &a),
               "{promp} {prompt {} }{response}");
    assert_str(text_fill(STR(""), slots, 2, &a), "");
    assert_str(text_fill(STR("{"), slots, 2, &a), "{");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
