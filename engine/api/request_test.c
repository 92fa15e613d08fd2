/* The table of request fields: what is read, what is refused and how the message names it. */
#include "common/test.h"

#include "engine/api/request.h"

#include <string.h>

struct parsed {
    struct arena arena;
    struct api_request r;
    struct err e;
    int rc;
};

static void parse(struct parsed *p, enum api_kind kind, const char *body)
{
    memset(p, 0, sizeof *p);
    arena_init(&p->arena, 4 * MiB);
    p->rc = api_request_parse(str_from(body), kind, &p->arena, &p->r, &p->e);
}

static void drop(struct parsed *p)
{
    api_request_close(&p->r);
    arena_free(&p->arena);
}

#define CHAT(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" more "}"

static void test_everything_is_read(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, API_CHAT,
          CHAT(",\"model\":\"m:r\",\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.1,"
               "\"repetition_penalty\":1.1,\"presence_penalty\":1,\"frequency_penalty\":-1,"
               "\"max_tokens\":7,\"max_completion_tokens\":9.0,\"stop\":[\"a\",\"b\"],\"seed\":-3,"
               "\"n\":2,\"logprobs\":true,\"top_logprobs\":5,\"stream\":true,\"user\":\"u\","
               "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true,"
               "\"logit_bias\":{\"5\":-100,\"6\":1.5},"
               "\"metadata\":{\"conversation_id\":\"c\",\"stratum\":\"s\",\"x\":[1]}"));
    assert_ok(p.rc, &p.e);
    const struct api_request *r = &p.r;
    assert_str(r->model, "m:r");
    assert_str(r->user, "u");
    assert_str(r->conversation, "c");
    assert_str(r->stratum, "s");
    assert_str(r->metadata, "{\"conversation_id\":\"c\",\"stratum\":\"s\",\"x\":[1]}");
    assert_true(r->client.v[PARAM_TEMPERATURE] == 0.5 && r->client.v[PARAM_TOP_K] == 40);
    assert_true(r->client.v[PARAM_MAX_NEW_TOKENS] == 9);            /* the newer name wins */
    assert_int_equal(r->client.set, (1u << PARAM_MAX_RUNNING) - 1); /* all but the scheduler's */
    assert_int_equal(r->client.n_stop, 2);
    assert_true(r->has_seed && r->seed == (uint64_t)-3);
    assert_true(r->stream && r->include_usage && r->want_logprobs && r->ignore_end);
    assert_int_equal(r->n, 2);
    assert_int_equal(r->n_top, 5);
    assert_int_equal(r->n_bias, 2);
    assert_int_equal(r->bias[0].token, 5);
    assert_true(r->bias[1].bias == 1.5f);
    drop(&p);
}

static void test_nothing_is_set_by_default(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, API_CHAT, CHAT(",\"temperature\":null,\"stop\":null,\"n\":null,\"unknown\":{}"));
    assert_ok(p.rc, &p.e);
    assert_int_equal(p.r.client.set, 0);
    assert_int_equal(p.r.client.n_stop, 0);
    assert_int_equal(p.r.n, 1);
    assert_false(p.r.stream || p.r.want_logprobs || p.r.has_seed);
    drop(&p);
}

static void test_forms_of_content_and_prompt(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, API_CHAT,
          "{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
          "{\"type\":\"text\",\"text\":\"b\"}]}]}");
    assert_ok(p.rc, &p.e);
    assert_str(p.r.messages[0].role, "system");
    assert_str(p.r.messages[0].content, "ab");
    drop(&p);
    parse(&p, API_COMPLETION, "{\"prompt\":[\"one\"],\"logprobs\":3,\"stop\":\"x\"}");
    assert_ok(p.rc, &p.e);
    assert_str(p.r.prompt, "one");
    assert_true(p.r.want_logprobs && p.r.n_top == 3 && p.r.client.n_stop == 1);
    drop(&p);
    parse(&p, API_COMPLETION, "{\"prompt\":[1,2,3]}");
    assert_ok(p.rc, &p.e);
    assert_true(p.r.n_ids == 3 && p.r.ids[2] == 3);
    drop(&p);
}

static void test_refusals_name_the_field(void **state)
{
    (void)state;
    static const struct {
        enum api_kind kind;
        const char *body, *place;
    } CASES[] = {
        {API_CHAT, "{}", "$.messages: "},
        {API_CHAT, "{\"messages\":[]}", "$.messages: "},
        {API_CHAT, "{\"messages\":\"x\"}", "$.messages: "},
        {API_CHAT, "{\"messages\":[1]}", "$.messages[0]: "},
        {API_CHAT, "{\"messages\":[{\"content\":\"x\"}]}", "$.messages[0].role: "},
        {API_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "$.messages[0].content: "},
        {API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "$.messages[0].content[0].type: "},
        {API_CHAT, CHAT(",\"temperature\":\"hot\""), "$.temperature: "},
        {API_CHAT, CHAT(",\"temperature\":-0.1"), "$.temperature: "},
        {API_CHAT, CHAT(",\"temperature\":true"), "$.temperature: "},
        {API_CHAT, CHAT(",\"top_k\":1.5"), "$.top_k: "},
        {API_CHAT, CHAT(",\"max_tokens\":0"), "$.max_tokens: "},
        {API_CHAT, CHAT(",\"n\":17"), "$.n: "},
        {API_CHAT, CHAT(",\"seed\":1.5"), "$.seed: "},
        {API_CHAT, CHAT(",\"stop\":[\"a\",\"\"]"), "$.stop[1]: "},
        {API_CHAT, CHAT(",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]"), "$.stop: "},
        {API_CHAT, CHAT(",\"logit_bias\":{\"-1\":1}"), "$.logit_bias.-1: "},
        {API_CHAT, CHAT(",\"logit_bias\":{\"1\":101}"), "$.logit_bias.1: "},
        {API_CHAT, CHAT(",\"logprobs\":2"), "$.logprobs: "},
        {API_CHAT, CHAT(",\"logprobs\":true,\"top_logprobs\":21"), "$.top_logprobs: "},
        {API_CHAT, CHAT(",\"top_logprobs\":1"), "$.top_logprobs: "},
        {API_CHAT, CHAT(",\"stream_options\":1"), "$.stream_options: "},
        {API_CHAT, CHAT(",\"metadata\":[]"), "$.metadata: "},
        {API_COMPLETION, "{}", "$.prompt: "},
        {API_COMPLETION, "{\"prompt\":[]}", "$.prompt: "},
        {API_COMPLETION, "{\"prompt\":[\"a\",\"b\"]}", "$.prompt: "},
        {API_COMPLETION, "{\"prompt\":[1,\"b\"]}", "$.prompt[1]: "},
        {API_COMPLETION, "{\"prompt\":[1,-2]}", "$.prompt[1]: "},
        {API_COMPLETION, "{\"prompt\":\"a\",\"echo\":true}", "$.echo: "},
        {API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":true}", "$.logprobs: "},
        {API_CHAT, "{\"messages\":1,\"messages\":2}", "not valid JSON"},
        {API_CHAT, "", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct parsed p;
        parse(&p, CASES[i].kind, CASES[i].body);
        if (p.rc == ERR_OK || strncmp(p.e.msg, CASES[i].place, strlen(CASES[i].place)) != 0)
            fail_msg("%s: %d, '%s' does not begin with '%s'", CASES[i].body, p.rc, p.e.msg,
                     CASES[i].place);
        drop(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_read),
        cmocka_unit_test(test_nothing_is_set_by_default),
        cmocka_unit_test(test_forms_of_content_and_prompt),
        cmocka_unit_test(test_refusals_name_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
