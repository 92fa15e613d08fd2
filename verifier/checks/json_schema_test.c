/* What is refused at load and in which words; values made to stall, crash or exhaust it. Verdicts
 * are in tests/cases/json_schema.tsv. */
#include "verifier/check_harness.h"

static struct check_verdict run(const char *schema, struct str text)
{
    struct buf params;
    buf_init(&params, MiB);
    buf_printf(&params, "{\"schema\":%s}", schema);
    buf_put_char(&params, '\0');
    struct check_verdict v = harness_text("json_schema", params.p, text, NULL);
    buf_free(&params);
    return v;
}

static void test_refused_at_load(void **state)
{
    (void)state;
    static const char *const row[][2] = {
        {"{}", "schema: found neither schema nor field"},
        {"{\"schema\":{},\"field\":\"s\"}", "schema: found schema and field"},
        {"{\"schema\":3}", "schema: found an integer"},
        {"{\"schema\":\"{\"}", "found text that is not JSON"},
        {"{\"schema\":{\"requird\":[]}}", "schema: keyword 'requird' is not known"},
        {"{\"schema\":{\"properties\":{\"a\":{\"nullable\":true}}}}",
         "schema.properties.a: keyword 'nullable'"},
        {"{\"schema\":{\"$ref\":\"https://example.com/x.json\"}}",
         "schema.$ref: 'https://example.com/x.json' is another document"},
        {"{\"schema\":{\"items\":{\"$ref\":\"#/$defs/gone\"}}}",
         "schema.items.$ref: '#/$defs/gone' leads nowhere"},
        {"{\"schema\":{\"$dynamicRef\":\"#gone\"}}", "leads nowhere"},
        {"{\"schema\":{\"$schema\":\"http://json-schema.org/draft-07/schema#\"}}",
         "no other draft is supported"},
        {"{\"schema\":{\"$vocabulary\":{}}}", "keyword '$vocabulary' is not supported"},
        {"{\"schema\":{\"dependencies\":{}}}", "schema.dependencies: keyword 'dependencies'"},
        {"{\"schema\":{\"additionalItems\":true}}", "'additionalItems' is not supported"},
        {"{\"schema\":{\"type\":\"int\"}}", "schema.type: found 'int', allowed: null, boolean"},
        {"{\"schema\":{\"type\":[]}}", "schema.type: found an array"},
        {"{\"schema\":{\"minimum\":\"1\"}}", "schema.minimum: found '1', allowed: a number"},
        {"{\"schema\":{\"multipleOf\":0}}", "schema.multipleOf: found a number"},
        {"{\"schema\":{\"minLength\":1.5}}",
         "schema.minLength: found a number, allowed: an integer"},
        {"{\"schema\":{\"maxItems\":-1}}", "schema.maxItems"},
        {"{\"schema\":{\"required\":\"a\"}}", "schema.required: found 'a', allowed: an array"},
        {"{\"schema\":{\"required\":[1]}}", "schema.required: found a number, allowed: a string"},
        {"{\"schema\":{\"dependentRequired\":{\"a\":[0]}}}", "schema.dependentRequired.a"},
        {"{\"schema\":{\"pattern\":\"a(\"}}", "schema.pattern: pattern: missing closing"},
        {"{\"schema\":{\"patternProperties\":{\"[\":true}}}", "schema.patternProperties"},
        {"{\"schema\":{\"allOf\":[]}}", "schema.allOf: found an array, allowed: an array of at"},
        {"{\"schema\":{\"anyOf\":[{},5]}}", "schema.anyOf.1: found a number, allowed: true, false"},
        {"{\"schema\":{\"items\":[{}]}}", "schema.items: found an array, allowed: true, false"},
        {"{\"schema\":{\"$id\":\"a#b\"}}", "schema.$id: found 'a#b'"},
        {"{\"schema\":{\"$anchor\":\"1a\"}}", "schema.$anchor: found '1a'"},
        {"{\"schema\":{\"$defs\":{\"a\":{\"$id\":\"x\"},\"b\":{\"$id\":\"x\"}}}}",
         "allowed: each identifier once"},
        {"{\"schema\":{\"format\":\"idn-hostname\"},\"format\":\"assert\"}",
         "schema.format: found 'idn-hostname', allowed: date-time"},
        {"{\"schema\":{\"$ref\":\"#\"}}", "it would never end"},
        {"{\"schema\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"not\":{\"$ref\":"
         "\"#\"}}}}}",
         "it would never end"},
        {"{\"schema\":{},\"strict\":true}", "unknown key 'strict'"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        harness_refuses("json_schema", row[i][0], row[i][1]);
}

static void test_reasons(void **state)
{
    (void)state;
    const char *s = "{\"properties\":{\"a\":{\"minimum\":3}},\"required\":[\"a\"],"
                    "\"additionalProperties\":false,\"anyOf\":[{\"minProperties\":1}]}";
    assert_string_equal(run(s, STR("{\"a\":1}")).reason, "minimum");
    assert_string_equal(run(s, STR("{}")).reason, "required");
    assert_string_equal(run(s, STR("{\"a\":3,\"b\":1}")).reason, "additionalProperties");
    assert_string_equal(run(s, STR("{\"a\":3")).reason, "invalid_json");
    assert_string_equal(run("false", STR("1")).reason, "false_schema");
}

static void test_modes_and_metadata(void **state)
{
    (void)state;
    const char *embedded = "{\"schema\":{\"type\":\"object\"},\"mode\":\"embedded\"}";
    struct str answer = STR("Here it is:\n```json\n{\"a\":1}\n```\n");
    assert_int_equal(harness_text("json_schema", embedded, answer, NULL).outcome, SCORE_PASS);
    assert_string_equal(harness_text("json_schema", embedded, STR("none"), NULL).reason, "no_json");
    const char *field = "{\"field\":\"schema\"}";
    static const struct {
        const char *metadata;
        enum score_outcome outcome;
        const char *reason;
    } row[] = {
        {"{\"schema\":{\"type\":\"integer\"}}", SCORE_PASS, ""},
        {"{\"schema\":{\"type\":\"string\"}}", SCORE_FAIL, "type"},
        {"{\"schema\":{\"type\":\"strin\"}}", SCORE_UNSCORED, "invalid_schema"},
        {"{\"schema\":[]}", SCORE_UNSCORED, "invalid_schema"},
        {"{}", SCORE_UNSCORED, "no_reference"},
        {NULL, SCORE_UNSCORED, "no_reference"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct check_verdict v = harness_text("json_schema", field, STR("7"), row[i].metadata);
        assert_int_equal(v.outcome, row[i].outcome);
        assert_string_equal(v.reason, row[i].reason);
    }
}

/* open, n copies of piece, middle, n copies of close. */
static struct str nest(const char *open, const char *middle, const char *close, size_t n)
{
    struct str a = harness_repeat(open, n), b = harness_repeat(close, n);
    struct buf out;
    buf_init(&out, 32 * MiB);
    buf_printf(&out, STR_FMT "%s" STR_FMT, STR_ARG(a), middle, STR_ARG(b));
    free((char *)a.p);
    free((char *)b.p);
    return buf_str(&out);
}

static const char *reason_of(const char *schema, struct str text)
{
    const char *reason = run(schema, text).reason;
    free((char *)text.p);
    return reason;
}

static void test_hostile_values(void **state)
{
    (void)state;
    const char *any = "{\"type\":\"array\"}", *deep = "{\"items\":{\"$ref\":\"#\"}}";
    assert_string_equal(reason_of(any, nest("[", "", "]", 100000)), "");
    assert_string_equal(reason_of(deep, nest("[", "", "]", 100000)), "inconclusive");
    assert_string_equal(reason_of("{\"uniqueItems\":true}", nest("[1,", "[]", "]", 100000)), "");
    assert_string_equal(reason_of("{}", nest("[", "", "", 500000)), "invalid_json");
    assert_string_equal(reason_of(any, harness_repeat("[", HOSTILE_BYTES)), "inconclusive");
    assert_string_equal(reason_of("{\"uniqueItems\":true}", nest("[\"a\",", "\"b\"]", "", 1)), "");
    assert_string_equal(run("{}", (struct str){"\"a\0b\"", 5}).reason, "invalid_json");
    assert_string_equal(run("{}", STR("\"\xFF\xFE\"")).reason, "invalid_json");
    assert_string_equal(run("{}", (struct str){NULL, 0}).reason, "invalid_json");
}

static void test_costly_schemas(void **state)
{
    (void)state;
    struct str items = harness_repeat("1,", 100000);
    struct buf list;
    buf_init(&list, 4 * MiB);
    buf_printf(&list, "[" STR_FMT "0]", STR_ARG(items));
    /* Every item is searched for in a list that does not have it, in each of several branches. */
    const char *wide = "{\"items\":{\"oneOf\":[{\"enum\":[2,3,4,5,6,7,8,9]},{\"enum\":[9,8,7,6]},"
                       "{\"not\":{\"enum\":[1,2,3]}},{\"anyOf\":[{\"const\":5},{\"const\":6}]}]}}";
    assert_string_equal(run(wide, buf_str(&list)).reason, "oneOf");
    assert_string_equal(run("{\"uniqueItems\":true}", buf_str(&list)).reason, "uniqueItems");
    /* 2^40 ways through the branches. */
    const char *doubling =
        "{\"$defs\":{\"a\":{\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}"
        "]},\"not\":{\"const\":[]}}},\"$ref\":\"#/$defs/a\"}";
    assert_string_equal(reason_of(doubling, nest("[", "", "]", 40)), "inconclusive");
    struct str letters = harness_repeat("a", 200000);
    buf_reset(&list);
    buf_printf(&list, "\"" STR_FMT "!\"", STR_ARG(letters));
    assert_string_equal(run("{\"pattern\":\"^(a+)+$\"}", buf_str(&list)).reason, "pattern");
    struct check_verdict v = run("{\"pattern\":\"^(a+)\\\\1+(x|a)*$\"}", buf_str(&list));
    assert_true(v.outcome != SCORE_PASS);
    buf_free(&list);
    free((char *)items.p);
    free((char *)letters.p);
}

static void test_long_numbers(void **state)
{
    (void)state;
    struct str digits = harness_repeat("7", 500000);
    assert_string_equal(run("{\"multipleOf\":7}", digits).reason, "");
    assert_string_equal(run("\"{\\\"maximum\\\":1e400000}\"", digits).reason, "maximum");
    assert_string_equal(run("{\"type\":\"integer\"}", digits).reason, "");
    free((char *)digits.p);
    assert_string_equal(run("{\"multipleOf\":7}", STR("1e99999999999999999999")).reason,
                        "multipleOf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_at_load),    cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_modes_and_metadata), cmocka_unit_test(test_hostile_values),
        cmocka_unit_test(test_costly_schemas),     cmocka_unit_test(test_long_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
