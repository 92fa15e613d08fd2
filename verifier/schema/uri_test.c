/* The examples of RFC 3986 section 5.4. */
#include "common/test.h"
#include "verifier/schema/uri.h"

static void check(const char *base, const char *reference, const char *want, const char *fragment)
{
    struct arena a;
    struct str rest;
    arena_init(&a, 1 << 16);
    struct str got = uri_resolve(str_from(base), str_from(reference), &rest, &a);
    if (!str_eq_c(got, want))
        fail_msg("%s: want %s, got " STR_FMT, reference, want, STR_ARG(got));
    assert_int_equal(rest.p != NULL, fragment != NULL);
    assert_true(!fragment || str_eq_c(rest, fragment));
    arena_free(&a);
}

static void test_rfc_examples(void **state)
{
    (void)state;
    static const char *const row[][2] = {
        {"g:h", "g:h"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {";x", "http://a/b/c/;x"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../..", "http://a/"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"/../g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {"..g", "http://a/b/c/..g"},
        {"./g/.", "http://a/b/c/g/"},
        {"g/../h", "http://a/b/c/h"},
        {"g;x=1/../y", "http://a/b/c/y"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        check("http://a/b/c/d;p?q", row[i][0], row[i][1], NULL);
}

static void test_fragments_and_names(void **state)
{
    (void)state;
    check("http://a/b", "c#/x/y", "http://a/c", "/x/y");
    check("http://a/b", "#", "http://a/b", "");
    check("urn:uuid:1-2", "#x", "urn:uuid:1-2", "x");
    check("", "item.json", "item.json", NULL);
    check("", "#a", "", "a");
    check("http://a", "b", "http://a/b", NULL);
    check("http://a/b", "", "http://a/b", NULL);
}

static void test_decode(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    assert_true(str_eq_c(uri_decode(STR("a%2Fb%25"), &a), "a/b%"));
    assert_null(uri_decode(STR("a%2"), &a).p);
    assert_null(uri_decode(STR("%zz"), &a).p);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc_examples),
        cmocka_unit_test(test_fragments_and_names),
        cmocka_unit_test(test_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
