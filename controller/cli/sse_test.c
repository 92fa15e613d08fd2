/* SSE: every cut of a stream gives the same events; comments and other fields are skipped. */
#include "common/test.h"

#include "controller/cli/sse.h"

#include <string.h>

static bool collect(void *ctx, struct str data)
{
    struct buf *out = ctx;

    buf_put_char(out, '<');
    buf_put_str(out, data);
    buf_put_char(out, '>');
    return !str_eq_c(data, "stop");
}

static void test_any_cut(void **state)
{
    (void)state;
    static const char stream[] = ": hello\n\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:two\ndata: lines"
                                 "\nid: 7\n\n\ndata: [DONE]\n\n";
    size_t n = sizeof stream - 1;

    for (size_t cut = 0; cut <= n; cut++) {
        struct buf got;
        struct sse s;
        buf_init(&got, KiB);
        sse_init(&s, KiB, collect, &got);
        assert_true(sse_feed(&s, (struct str){stream, cut}));
        assert_true(sse_feed(&s, (struct str){stream + cut, n - cut}));
        assert_str(buf_str(&got), "<{\"a\":1}><two\nlines><[DONE]>");
        sse_fini(&s);
        buf_free(&got);
    }
}

static void test_stop_and_limit(void **state)
{
    (void)state;
    struct buf got;
    struct sse s;
    char line[100];

    buf_init(&got, KiB);
    sse_init(&s, 64, collect, &got);
    assert_false(sse_feed(&s, STR("data: stop\n\ndata: more\n\n")));
    assert_str(buf_str(&got), "<stop>");
    memset(line, 'x', sizeof line);
    assert_false(sse_feed(&s, (struct str){line, sizeof line}));
    sse_fini(&s);
    buf_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_stop_and_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
