/* Values, order and hashes of the tree; deep, wide and broken texts. */
#include "common/test.h"
#include "verifier/check_harness.h"
#include "verifier/text/json_tree.h"

static struct json_tree read(struct arena *a, struct str text)
{
    struct json_tree t;
    arena_init(a, 256 << 20);
    assert_int_equal(json_tree_read(text, a, &t), JSON_TREE_OK);
    return t;
}

static void test_values(void **state)
{
    (void)state;
    struct arena a;
    struct json_tree t =
        read(&a, STR(" {\"b\" : [1, -2.50e1, \"x\\u00e9\\n\\ud83d\\ude00\"], \"a\":{}, \"\":null,"
                     "\"b\\u0000\":false , \"t\":true}\n"));
    assert_int_equal(t.root->n, 5);
    const struct json_node *b = json_tree_get(t.root, STR("b"));
    assert_int_equal(b->n, 3);
    assert_true(b->child[1].number.is_negative);
    assert_true(str_eq_c(b->child[1].number.digits, "25"));
    assert_int_equal(b->child[1].number.exponent, 0);
    assert_true(str_eq_c(b->child[2].text, "x\xC3\xA9\n\xF0\x9F\x98\x80"));
    assert_int_equal(json_tree_get(t.root, STR("a"))->n, 0);
    assert_int_equal(json_tree_get(t.root, STR(""))->type, TREE_NULL);
    assert_int_equal(json_tree_get(t.root, STR("b\0"))->type, TREE_FALSE);
    assert_null(json_tree_get(t.root, STR("c")));
    assert_null(json_tree_get(b, STR("c")));
    arena_free(&a);
}

static void test_last_duplicate_counts(void **state)
{
    (void)state;
    struct arena a;
    struct json_tree t = read(&a, STR("{\"k\":1,\"a\":0,\"k\":2,\"k\":\"three\"}"));
    assert_int_equal(t.root->n, 2);
    assert_int_equal(json_tree_get(t.root, STR("k"))->type, TREE_STRING);
    arena_free(&a);
}

static void test_equal_values_have_equal_hashes(void **state)
{
    (void)state;
    struct arena a;
    struct json_tree t = read(
        &a, STR("[[{\"a\":1,\"b\":[2.0]},{\"b\":[20e-1],\"a\":1}],[\"\\u0041\",\"A\"],[0,-0.0],"
                "[1,\"1\"],[[],{}],[[1,2],[2,1]],[null,false],[\"\",[]]]"));
    for (uint32_t i = 0; i < t.root->n; i++) {
        const struct json_node *pair = t.root->child[i].child;
        assert_int_equal(pair[0].hash == pair[1].hash, i < 3);
    }
    assert_true(json_tree_hash_text(STR("A")) == t.root->child[1].child[0].hash);
    arena_free(&a);
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const text[] = {"", " ", "{", "[1,]", "{\"a\"}", "01", "\"\xFF\"", "1 2"};
    struct arena a;
    struct json_tree t;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        assert_int_equal(json_tree_read(str_from(text[i]), &a, &t), JSON_TREE_BROKEN);
    assert_int_equal(json_tree_read((struct str){"1\0", 2}, &a, &t), JSON_TREE_BROKEN);
    arena_free(&a);
}

static void test_limits(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    struct arena a;
    struct str open = harness_repeat("[", DEEP), close = harness_repeat("]", DEEP);
    struct buf text;
    buf_init(&text, 16 * MiB);
    buf_put_str(&text, open);
    buf_put_str(&text, close);
    struct json_tree t = read(&a, buf_str(&text));
    assert_int_equal(t.n_values, DEEP);
    arena_reset(&a);
    assert_int_equal(json_tree_read(open, &a, &t), JSON_TREE_BROKEN);
    buf_reset(&text);
    buf_put_c(&text, "[0");
    for (int i = 0; i < JSON_TREE_MAX_VALUES; i++)
        buf_put_c(&text, ",1");
    buf_put_c(&text, "]");
    assert_int_equal(json_tree_read(buf_str(&text), &a, &t), JSON_TREE_LARGE);
    arena_free(&a);
    arena_init(&a, 4096);
    assert_int_equal(json_tree_read(str_slice(buf_str(&text), 0, 0), &a, &t), JSON_TREE_BROKEN);
    struct str many = harness_repeat("[1],", 500);
    struct str list = {many.p, many.n - 1};
    buf_reset(&text);
    buf_printf(&text, "[" STR_FMT "]", STR_ARG(list));
    assert_int_equal(json_tree_read(buf_str(&text), &a, &t), JSON_TREE_NO_MEMORY);
    arena_free(&a);
    buf_free(&text);
    free((char *)open.p);
    free((char *)close.p);
    free((char *)many.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_last_duplicate_counts),
        cmocka_unit_test(test_equal_values_have_equal_hashes),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
