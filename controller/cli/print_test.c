/* Printing: widths by characters, hostile text made harmless, numbers that are absent. */
#include "common/test.h"

#include "common/buf.h"
#include "controller/cli/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    struct arena *a = malloc(sizeof *a);

    arena_init(a, 8 * MiB);
    *state = a;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(*state);
    free(*state);
    return 0;
}

static void test_table(void **state)
{
    static const char *const titles[] = {"NAME", ">N", "TEXT"};
    static const char *const rows[][3] = {{"caf\xc3\xa9", "7", "x"}, {"b", "123", NULL}};
    struct table t;
    struct err e = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_ok(table_init(&t, *state, titles, 3, &e), &e);
    table_row(&t, rows[0]);
    table_row(&t, rows[1]);
    table_print(&t, f);
    fclose(f);
    assert_string_equal(text, "NAME    N  TEXT\n"
                              "caf\xc3\xa9    7  x\n"
                              "b     123  \n");
    free(text);
}

static void test_one_line(void **state)
{
    assert_string_equal(one_line(*state, "a\x1b[31m\nb", 99), "a [31m b");
    assert_string_equal(one_line(*state, "abcdef", 3), "abc...");
    assert_string_equal(one_line(*state, "\xc3\xa9\xc3\xa9\xc3\xa9", 2), "\xc3\xa9\xc3\xa9...");
    assert_string_equal(one_line(*state, "", 5), "");
}

static void test_json_values(void **state)
{
    json_t *v = json_loads("{\"a\":1.25,\"n\":null,\"t\":\"x\",\"i\":7,"
                           "\"p\":{\"temperature\":0.5,\"stop\":[\"a\"]}}",
                           0, NULL);

    assert_string_equal(json_number_of(*state, v, "a", 1), "1.2");
    assert_string_equal(json_number_of(*state, v, "n", 1), "-");
    assert_string_equal(json_number_of(*state, v, "absent", 1), "-");
    assert_string_equal(json_text_of(v, "t"), "x");
    assert_string_equal(json_text_of(v, "a"), "");
    assert_int_equal(json_int_of(v, "i"), 7);
    assert_true(isnan(json_real_of(v, "t")));
    assert_string_equal(params_line(*state, json_object_get(v, "p")),
                        "temperature=0.5 stop=[\"a\"]");
    assert_string_equal(age_of(*state, 90000), "90 s ago");
    assert_string_equal(age_of(*state, 10000000), "2 h ago");
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_values, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
