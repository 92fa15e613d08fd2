/* Configuration: what loads, what each mistake says and where, printing that loads again. */
#include "common/config.h"

#include "common/io.h"
#include "common/json.h"
#include "common/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct check {
    struct str id;
    double weight;
    bool gate;
    struct str params;
};
struct inner {
    struct str host;
    int64_t port;
    int mode;
};
struct outer {
    struct inner server;
    struct cfg_list checks;
    struct cfg_text_list ramp;
    double alpha;
    struct str free_form;
};

static const char *const MODES[] = {"slow", "fast", NULL};

static const struct cfg_option CHECK_OPTIONS[] = {
    {.key = "id", .type = CFG_TEXT, .offset = offsetof(struct check, id), .max = 8, .help = "Id."},
    {.key = "weight",
     .type = CFG_REAL,
     .offset = offsetof(struct check, weight),
     .fallback = "1",
     .max = 100,
     .help = "Weight."},
    {.key = "gate",
     .type = CFG_BOOL,
     .offset = offsetof(struct check, gate),
     .fallback = "false",
     .help = "Gate."},
};
static const struct cfg_table CHECK_TABLE = {.name = "check",
                                             .size = sizeof(struct check),
                                             .option = CHECK_OPTIONS,
                                             .n_option = 3,
                                             .max_items = 3,
                                             .extra_offset = offsetof(struct check, params)};

static const struct cfg_option INNER_OPTIONS[] = {
    {.key = "host",
     .type = CFG_TEXT,
     .offset = offsetof(struct inner, host),
     .fallback = "127.0.0.1",
     .help = "Address."},
    {.key = "port",
     .type = CFG_INT,
     .offset = offsetof(struct inner, port),
     .fallback = "8000",
     .min = 0,
     .max = 65535,
     .help = "Port."},
    {.key = "mode",
     .type = CFG_ENUM,
     .offset = offsetof(struct inner, mode),
     .fallback = "slow",
     .choices = MODES,
     .help = "Mode."},
};
static const struct cfg_table INNER_TABLE = {
    .name = "server", .size = sizeof(struct inner), .option = INNER_OPTIONS, .n_option = 3};

static const struct cfg_table FREE_TABLE = {.name = "free",
                                            .size = sizeof(struct outer),
                                            .extra_offset = offsetof(struct outer, free_form)};

static int check_outer(const void *value, const char *path, struct err *e)
{
    const struct outer *o = value;
    (void)path;
    if (o->server.port == 1 && o->server.mode == 1)
        return err_set(e, ERR_INVALID, "server.port 1 is never fast");
    return ERR_OK;
}

static const struct cfg_option OUTER_OPTIONS[] = {
    {.key = "server",
     .type = CFG_MAP,
     .offset = offsetof(struct outer, server),
     .sub = &INNER_TABLE,
     .help = "Server."},
    {.key = "checks",
     .type = CFG_LIST,
     .offset = offsetof(struct outer, checks),
     .sub = &CHECK_TABLE,
     .help = "Checks."},
    {.key = "ramp",
     .type = CFG_TEXT_LIST,
     .offset = offsetof(struct outer, ramp),
     .fallback = "0.01,0.1",
     .help = "Ramp."},
    {.key = "alpha",
     .type = CFG_REAL,
     .offset = offsetof(struct outer, alpha),
     .fallback = "0.05",
     .max = 1,
     .help = "Level."},
    {.key = "free", .type = CFG_MAP, .offset = 0, .sub = &FREE_TABLE, .help = "Anything."},
};
static const struct cfg_table TABLE = {.name = "test",
                                       .size = sizeof(struct outer),
                                       .option = OUTER_OPTIONS,
                                       .n_option = 5,
                                       .check = check_outer};

struct fixture {
    struct arena arena;
    struct err e;
    struct outer value;
    char path[64];
};

static int set_up(void **state)
{
    static struct fixture f;
    arena_init(&f.arena, 16 * MiB);
    snprintf(f.path, sizeof f.path, "/tmp/config_test.%d.yaml", (int)getpid());
    f.e = (struct err){0};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->arena);
    unlink(f->path);
    return 0;
}

static int load(struct fixture *f, const char *yaml, const char *override)
{
    assert_ok(io_write_file(f->path, str_from(yaml), &f->e), &f->e);
    return cfg_load(&TABLE, f->path, &override, override ? 1 : 0, &f->arena, &f->value, &f->e);
}

static void test_defaults(void **state)
{
    struct fixture *f = *state;
    assert_ok(cfg_load(&TABLE, NULL, NULL, 0, &f->arena, &f->value, &f->e), &f->e);
    assert_str(f->value.server.host, "127.0.0.1");
    assert_int_equal(f->value.server.port, 8000);
    assert_int_equal(f->value.ramp.n, 2);
    assert_str(f->value.ramp.item[1], "0.1");
    assert_true(f->value.alpha == 0.05);
    assert_int_equal(f->value.checks.n, 0);
    assert_str(f->value.free_form, "{}");
    assert_ok(load(f, "", NULL), &f->e);
    assert_ok(load(f, "# only a comment\n", NULL), &f->e);
    assert_ok(load(f, "server:\nalpha: ~\n", NULL), &f->e);
    assert_int_equal(f->value.server.port, 8000);
}

static void test_values(void **state)
{
    struct fixture *f = *state;
    assert_ok(load(f,
                   "server: {port: 9, mode: fast, host: \"x#y\"}\n"
                   "ramp: [0.5, '1']\n"
                   "checks:\n"
                   "- id: a\n"
                   "  min: 3\n"
                   "  words: [x, \"7\", 7, true]\n"
                   "- {id: b, weight: 2.5, gate: true}\n"
                   "free: {temperature: 0.7, stop: [\"\\n\"]}\n",
                   NULL),
              &f->e);
    const struct check *c = f->value.checks.item;
    assert_int_equal(f->value.checks.n, 2);
    assert_str(c[0].params, "{\"min\":3,\"words\":[\"x\",\"7\",7,true]}");
    assert_true(c[0].weight == 1 && !c[0].gate && c[1].weight == 2.5 && c[1].gate);
    assert_str(c[1].params, "{}");
    assert_str(f->value.server.host, "x#y");
    assert_int_equal(f->value.server.mode, 1);
    assert_str(f->value.ramp.item[0], "0.5");
    assert_str(f->value.free_form, "{\"stop\":[\"\\n\"],\"temperature\":0.69999999999999996}");
}

static void test_mistakes(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *yaml, *line, *part;
    } cases[] = {
        {"server:\n  prot: 1\n", ":2: server.prot", "did you mean port?"},
        {"sever: {}\n", ":1: sever", "did you mean server?"},
        {"xyzzy: 1\n", ":1: xyzzy", "unknown key"},
        {"server:\n  port: http\n", ":2: server.port", "an integer from 0 to 65535, got \"http\""},
        {"server:\n  port: 65536\n", ":2: server.port", "got \"65536\""},
        {"server:\n  port: 1.5\n", ":2: server.port", "an integer"},
        {"server:\n  port: [1]\n", ":2: server.port", "got a list"},
        {"server:\n  mode: medium\n", ":2: server.mode", "one of slow, fast"},
        {"server: 5\n", ":1: server", "must be a mapping"},
        {"checks: {}\n", ":1: checks", "must be a list"},
        {"checks:\n- weight: 1\n", ":2: checks[0].id", "missing"},
        {"checks:\n- id: a\n- id: b\n  gate: yes\n", ":4: checks[1].gate", "true or false"},
        {"checks:\n- id: abcdefghi\n", ":2: checks[0].id", "at most 8 are allowed"},
        {"checks: [{id: a},{id: a},{id: a},{id: a}]\n", ":1: checks", "at most 3"},
        {"alpha: 0.1\nalpha: 0.2\n", ":2:", "duplicate key"},
        {"alpha: nan\n", ":1: alpha", "a number"},
        {"server: {port: 1\n", ":", "not valid YAML"},
        {"a: b: c\n", ":1:", "not valid YAML"},
        {"\tserver: 1\n", ":1:", "not valid YAML"},
        {"server: &x {port: 1}\n", ":1:", "anchors"},
        {"alpha: !!float 1\n", ":1:", "tags"},
        {"alpha: 0.1\n---\nalpha: 0.2\n", ":", "one document"},
        {"- 1\n", ":1:", "must be a mapping"},
        {"alpha: 0.1\nbeta: '\xfb'", ":2:", "UTF-8"},
        {"alpha: 0.1\n%", ":2:", "directives"},
        {"%YAML 1.2\n---\nalpha: 0.1\n", ":1:", "directives"},
        {"server: {port: 1, mode: fast}\n", ": server.port 1", "never fast"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->e = (struct err){0};
        assert_int_equal(load(f, cases[i].yaml, NULL), ERR_INVALID);
        bool names_file = strncmp(f->e.msg, f->path, strlen(f->path)) == 0;
        if (!names_file || !strstr(f->e.msg, cases[i].line) || !strstr(f->e.msg, cases[i].part))
            fail_msg("case %zu: '%s' lacks '%s' or '%s'", i, f->e.msg, cases[i].line,
                     cases[i].part);
    }
}

static void test_files_that_cannot_be_read(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cfg_load(&TABLE, "/nonexistent/x.yaml", NULL, 0, &f->arena, &f->value, &f->e),
                     ERR_IO);
    assert_non_null(strstr(f->e.msg, "/nonexistent/x.yaml"));
    char *deep = malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    assert_int_equal(load(f, deep, NULL), ERR_INVALID);
    memset(deep, 'x', 200000);
    assert_int_equal(load(f, deep, NULL), ERR_INVALID);
    free(deep);
    assert_int_equal(load(f, "alpha: \"\xff\"\n", NULL), ERR_INVALID);
}

static void test_overrides(void **state)
{
    struct fixture *f = *state;
    assert_ok(load(f, "checks: [{id: a}]\n", "server.port=77"), &f->e);
    assert_int_equal(f->value.server.port, 77);
    assert_ok(load(f, "checks: [{id: a}]\n", "checks[0].weight=3"), &f->e);
    assert_true(((const struct check *)f->value.checks.item)->weight == 3);
    assert_ok(load(f, "", "ramp=[0.2, 0.3]"), &f->e);
    assert_str(f->value.ramp.item[1], "0.3");
    assert_ok(load(f, "", "server.host=a=b: c"), &f->e);
    assert_str(f->value.server.host, "a=b: c");
    assert_ok(load(f, "", "free={top_k: 5}"), &f->e);
    assert_str(f->value.free_form, "{\"top_k\":5}");
    assert_ok(load(f, "free: {top_k: 5, a: b}\n", "free.top_k=[7, x]"), &f->e);
    assert_str(f->value.free_form, "{\"a\":\"b\",\"top_k\":[7,\"x\"]}");
    assert_ok(load(f, "checks: [{id: a, min: 1}]\n", "checks[0].min=2.5"), &f->e);
    assert_str(((const struct check *)f->value.checks.item)->params, "{\"min\":2.5}");
    static const char *const bad[][2] = {
        {"free.top_k=", "a value is missing"},   {"free.top_k=[", "not valid YAML"},
        {"server.prot=1", "did you mean port?"}, {"server.port=x", "--set server.port=x"},
        {"checks[4].weight=1", "no item 4"},     {"alpha[0]=1", "only a list"},
        {"alpha.x=1", "no keys below"},          {"nonsense", "key=value"},
        {"checks[0]={id: b}", "whole item"},     {"checks[x].id=b", "must look like"},
        {"server.port=", "an integer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(load(f, "checks: [{id: a}]\n", bad[i][0]), ERR_INVALID);
        if (!strstr(f->e.msg, bad[i][1]))
            fail_msg("%s: '%s' lacks '%s'", bad[i][0], f->e.msg, bad[i][1]);
    }
}

static void test_printed_loads_again(void **state)
{
    struct fixture *f = *state;
    struct buf first, second;
    buf_init(&first, MiB);
    buf_init(&second, MiB);
    assert_ok(load(f,
                   "server: {host: \"a \\\"b\\\" \\n# \xc3\xa9\"}\nalpha: 0.1\n"
                   "checks: [{id: a, min: 3, s: 'x: y'}, {id: b}]\nfree: {k: {z: [1]}}\n",
                   NULL),
              &f->e);
    assert_ok(cfg_print(&TABLE, &f->value, &first, &f->e), &f->e);
    buf_put_char(&first, '\0');
    assert_ok(load(f, first.p, NULL), &f->e);
    assert_ok(cfg_print(&TABLE, &f->value, &second, &f->e), &f->e);
    buf_put_char(&second, '\0');
    assert_string_equal(first.p, second.p);
    buf_free(&first);
    buf_free(&second);
}

static void test_reference_and_schema(void **state)
{
    struct fixture *f = *state;
    struct buf b;
    buf_init(&b, MiB);
    cfg_reference(&TABLE, &b);
    buf_put_char(&b, '\0');
    assert_non_null(strstr(b.p, "  # Port. (an integer from 0 to 65535; default 8000)\n"
                                "  port: 8000\n"));
    char *empty_id = strstr(b.p, "- id: \"\"");
    assert_non_null(empty_id);
    assert_ok(load(f, b.p, NULL), &f->e); /* the reference is itself a valid file */
    buf_reset(&b);
    assert_ok(cfg_json_schema(&TABLE, &b, &f->e), &f->e);
    json_t *v = NULL;
    assert_ok(json_parse(buf_str(&b), 0, &v, &f->e), &f->e);
    json_t *port = json_object_get(
        json_object_get(json_object_get(json_object_get(v, "properties"), "server"), "properties"),
        "port");
    assert_int_equal(json_integer_value(json_object_get(port, "default")), 8000);
    json_decref(v);
    buf_free(&b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_defaults),
        CASE(test_values),
        CASE(test_mistakes),
        CASE(test_files_that_cannot_be_read),
        CASE(test_overrides),
        CASE(test_printed_loads_again),
        CASE(test_reference_and_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
