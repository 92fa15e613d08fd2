/* What the metadata may hold, what is never a silent pass, and texts made to stall. Verdicts per
 * instruction are in tests/cases/constraints.tsv, which agrees with the reference implementations.
 */
#include "verifier/check_harness.h"
#include "verifier/constraints/constraint.h"
#include "verifier/text/language.h"

static struct check_verdict run(const char *params, const char *text, const char *metadata)
{
    return harness_text("constraints", params, str_from(text), metadata);
}

static void test_forms_of_metadata(void **state)
{
    (void)state;
    const char *ours = "{\"constraints\":[{\"id\":\"punctuation:no_comma\"},{\"id\":"
                       "\"count:numbers\",\"kwargs\":{\"N\":2.0,\"other\":null}}]}";
    const char *theirs = "{\"instruction_id_list\":[\"punctuation:no_comma\",\"count:numbers\"],"
                         "\"kwargs\":[{},{\"N\":2}]}";
    assert_int_equal(run("{}", "1 and 2", ours).outcome, SCORE_PASS);
    assert_int_equal(run("{}", "1 and 2", theirs).outcome, SCORE_PASS);
    assert_string_equal(run("{}", "1, 2", ours).reason, "not_followed");
    assert_string_equal(run("{}", "1 2 3", theirs).reason, "not_followed");
    assert_true(run("{\"partial\":true}", "1, 2", ours).value == 0.5);
    assert_int_equal(
        run("{\"field\":\"c\"}", "x", "{\"c\":[{\"id\":\"format:no_whitespace\"}]}").outcome,
        SCORE_PASS);
}

static void test_never_a_silent_pass(void **state)
{
    (void)state;
    static const char *const row[][3] = {
        {"{}", "x", "no_reference"},
        {"{\"constraints\":[]}", "x", "no_reference"},
        {"{\"constraints\":\"count:numbers\"}", "x", "no_reference"},
        {"{\"constraints\":[{\"id\":\"count:nothing\"}]}", "x", "unknown_instruction"},
        {"{\"constraints\":[{}]}", "x", "unknown_instruction"},
        {"{\"constraints\":[7]}", "x", "unknown_instruction"},
        {"{\"constraints\":[{\"id\":\"words:start_verb\"}]}", "x", "unsupported_instruction"},
        {"{\"constraints\":[{\"id\":\"count:numbers\"}]}", "x", "bad_arguments"},
        {"{\"constraints\":[{\"id\":\"count:numbers\",\"kwargs\":{\"N\":-1}}]}", "x",
         "bad_arguments"},
        {"{\"constraints\":[{\"id\":\"count:numbers\",\"kwargs\":{\"N\":1.5}}]}", "x",
         "bad_arguments"},
        {"{\"constraints\":[{\"id\":\"keywords:existence\",\"kwargs\":{\"keywords\":[]}}]}", "x",
         "bad_arguments"},
        {"{\"constraints\":[{\"id\":\"length_constraints:number_words\",\"kwargs\":{\"num_words\":"
         "1,\"relation\":\"about\"}}]}",
         "x", "bad_arguments"},
        {"{\"constraints\":[{\"id\":\"language:response_language\",\"kwargs\":{\"language\":"
         "\"tlh\"}}]}",
         "some words in a language that is known", "unknown_language"},
        {"{\"constraints\":[{\"id\":\"punctuation:no_comma\"},{\"id\":\"new:one\"}]}", "fine",
         "unknown_instruction"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct check_verdict v = run("{}", row[i][1], row[i][0]);
        assert_int_equal(v.outcome, SCORE_UNSCORED);
        assert_string_equal(v.reason, row[i][2]);
    }
    /* One that is broken decides, whatever the others are; not where shares are asked for. */
    const char *mixed =
        "{\"constraints\":[{\"id\":\"punctuation:no_comma\"},{\"id\":\"new:one\"}]}";
    assert_int_equal(run("{}", "a, b", mixed).outcome, SCORE_FAIL);
    assert_int_equal(run("{\"partial\":true}", "a, b", mixed).outcome, SCORE_UNSCORED);
}

static void test_loose(void **state)
{
    (void)state;
    const char *quoted = "{\"constraints\":[{\"id\":\"startend:quotation\"}]}";
    assert_int_equal(run("{}", "Sure:\n\"All of it.\"", quoted).outcome, SCORE_FAIL);
    assert_int_equal(run("{\"loose\":true}", "Sure:\n\"All of it.\"", quoted).outcome, SCORE_PASS);
    assert_int_equal(run("{\"loose\":true}", "\"All\"\nBye", quoted).outcome, SCORE_PASS);
    assert_int_equal(run("{\"loose\":true}", "Sure\n\"All\"\nBye", quoted).outcome, SCORE_PASS);
    assert_int_equal(run("{\"loose\":true}", "**\"All\"**", quoted).outcome, SCORE_PASS);
    assert_int_equal(run("{\"loose\":true}", "nothing", quoted).outcome, SCORE_FAIL);
    assert_int_equal(run("{\"loose\":true}", "", quoted).outcome, SCORE_FAIL);
}

/* Every argument any instruction takes, under the name it has. */
static const char EVERYTHING[] =
    "{\"keywords\":[\"aa\",\"b\"],\"keyword\":\"a\",\"frequency\":3,\"forbidden_words\":[\"aa\","
    "\"z\"],"
    "\"letter\":\"a\",\"let_frequency\":3,\"language\":\"en\",\"num_sentences\":3,\"num_"
    "paragraphs\":3,"
    "\"num_words\":3,\"nth_paragraph\":2,\"first_word\":\"a\",\"num_place"
    "holders\":99999,"
    "\"postscript_marker\":\"P.P.S\",\"num_bullets\":3,\"num_highlights\":1000000,"
    "\"section_spliter\":\"a\",\"num_sections\":1000000,\"prompt_to_repeat\":\"a a b\","
    "\"end_phrase\":\"a\",\"capital_frequency\":3,\"min_words\":1,\"max_words\":3,\"N\":3,"
    "\"small_n\":3,\"percentage\":30,\"reference_text\":\"abc\",\"options\":\"a or "
    "b\",\"sep\":\"-\","
    "\"word\":\"a\",\"n\":2,\"m\":2,\"n_start\":0,\"n_end\":2,\"keyword1\":\"a\",\"keyword2\":"
    "\"b\","
    "\"keyword3\":\"c\",\"keyword4\":\"d\",\"keyword5\":\"e\"}";

/* Each within the time one hostile text may take. */
static void run_all(struct str text)
{
    struct err e = {0};
    struct language *language;
    json_t *kwargs;
    struct check_item item = {0};
    assert_ok(language_open(&language, &e), &e);
    assert_ok(json_parse(str_from(EVERYTHING), 0, &kwargs, &e), &e);
    for (size_t i = 0; i < constraint_count(); i++) {
        const char *reason = NULL;
        uint64_t start = check_cpu_us();
        enum constraint_outcome outcome =
            constraint_check(str_from(constraint_name(i)), kwargs, text, &item, language, &reason);
        if (check_cpu_us() - start > HOSTILE_MAX_US)
            fail_msg("%s takes too long", constraint_name(i));
        assert_int_equal(outcome == CONSTRAINT_UNSCORED, reason != NULL);
        assert_true(!reason || strcmp(reason, "unsupported_instruction") == 0 ||
                    strcmp(reason, "unknown_language") == 0);
    }
    json_decref(kwargs);
    language_close(language);
}

static void test_hostile_texts(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { BYTES = 1 << 12 };
#else
    enum { BYTES = 1 << 16 };
#endif
    static const char *const piece[] = {"a",   "(",  "\"'",   "[\n",   "*",    "a. ",
                                        "...", "\n", " ",     "a\n\n", "1,",   "\xF0\x9F\x98\x80",
                                        "**",  "p.", "A.B. ", "<<",    "A-B ", "'s n't "};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], BYTES / strlen(piece[i]));
        run_all(text);
        free((char *)text.p);
    }
}

static void test_texts_that_are_no_texts(void **state)
{
    (void)state;
    run_all((struct str){"a\0b. C\0", 7});
    run_all((struct str){NULL, 0});
    const char *two = "{\"constraints\":[{\"id\":\"length_constraints:number_sentences\","
                      "\"kwargs\":{\"num_sentences\":2}}]}";
    struct str broken = STR("\xFF\xFE\xFD.\xFF a\xC3 \xE2\x80");
    assert_int_equal(harness_text("constraints", "{}", broken, two).outcome, SCORE_PASS);
    struct str large = harness_repeat("a", 10 * 1024 * 1024);
    assert_string_equal(harness_text("constraints", "{}", large,
                                     "{\"constraints\":[{\"id\":\"punctuation:no_comma\"}]}")
                            .reason,
                        "inconclusive");
    free((char *)large.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_of_metadata),
        cmocka_unit_test(test_never_a_silent_pass),
        cmocka_unit_test(test_loose),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_texts_that_are_no_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
