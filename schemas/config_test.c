/* The product's configuration: defaults, the file in deploy/, mistakes in routes, paths and keys.
 */
#include "schemas/config.h"

#include "common/io.h"
#include "common/test.h"
#include "schemas/config_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct arena arena;
    struct err e;
    struct milepost_config c;
    char path[64];
};

static int set_up(void **state)
{
    static struct fixture f;
    arena_init(&f.arena, 16 * MiB);
    snprintf(f.path, sizeof f.path, "/tmp/milepost_config_test.%d", (int)getpid());
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

static int load(struct fixture *f, const char *yaml)
{
    assert_ok(io_write_file(f->path, str_from(yaml), &f->e), &f->e);
    return milepost_config_load(f->path, NULL, 0, &f->arena, &f->c, &f->e);
}

static void test_no_file_is_enough(void **state)
{
    struct fixture *f = *state;
    assert_ok(milepost_config_load(NULL, NULL, 0, &f->arena, &f->c, &f->e), &f->e);
    assert_int_equal(f->c.engine.port, 8000);
    assert_int_equal(f->c.verifier.port, 8091);
    assert_int_equal(f->c.controller.port, 8090);
    assert_str(f->c.loop.outputs, "tcp://127.0.0.1:5551");
    assert_str(f->c.loop.scores, "tcp://127.0.0.1:5552");
    assert_str(f->c.loop.control, "tcp://127.0.0.1:5553");
    assert_int_equal(f->c.routes.n, 1);
    const struct route_config *r = milepost_config_route(&f->c, STR("default"));
    assert_non_null(r);
    assert_int_equal(r->checks.n, 3);
    assert_int_equal(r->policy.kind, 2);
    assert_true(r->policy.alpha == 0.05 && r->policy.epsilon == 0.02);
    assert_str(r->policy.ramp.item[3], "0.5");
    assert_null(milepost_config_route(&f->c, STR("other")));
}

/* The file people start from: it loads, names every key, and changes nothing it does not mean to.
 */
static void test_deployed_file(void **state)
{
    struct fixture *f = *state;
    struct milepost_config plain;
    struct err *e = &f->e;
    assert_ok(milepost_config_load("deploy/milepost.yaml", NULL, 0, &f->arena, &f->c, e), e);
    assert_ok(milepost_config_load(NULL, NULL, 0, &f->arena, &plain, e), e);
    const struct route_config *r = f->c.routes.item, *plain_route = plain.routes.item;
    assert_str(r->name, "default");
    assert_str(((const struct check_config *)r->checks.item)->params, "{\"allow\":[\"stop\"]}");
    struct buf got, want;
    buf_init(&got, MiB);
    buf_init(&want, MiB);
    assert_ok(cfg_print(&POLICY_TABLE, &r->policy, &got, e), e);
    assert_ok(cfg_print(&POLICY_TABLE, &plain_route->policy, &want, e), e);
    f->c.routes.n = plain.routes.n = 0;
    assert_ok(cfg_print(&MILEPOST_CONFIG, &f->c, &got, e), e);
    assert_ok(cfg_print(&MILEPOST_CONFIG, &plain, &want, e), e);
    assert_true(str_eq(buf_str(&got), buf_str(&want)));
    buf_free(&got);
    buf_free(&want);
}

static void assert_named(const struct cfg_table *t, const char *text)
{
    for (uint32_t i = 0; i < t->n_option; i++) {
        const struct cfg_option *o = &t->option[i];
        char key[80];
        snprintf(key, sizeof key, " %s:", o->key);
        bool is_top = t == &MILEPOST_CONFIG;
        if (!strstr(text, is_top ? key + 1 : key))
            fail_msg("deploy/milepost.yaml does not name %s of %s", o->key, t->name);
        assert_true(o->help && strlen(o->help) > 8);
        if (o->sub)
            assert_named(o->sub, text);
    }
}

static void test_deployed_file_names_every_key(void **state)
{
    struct fixture *f = *state;
    struct buf b;
    buf_init(&b, MiB);
    assert_ok(io_read_file("deploy/milepost.yaml", &b, &f->e), &f->e);
    buf_put_char(&b, '\0');
    assert_named(&MILEPOST_CONFIG, b.p);
    buf_free(&b);
}

static void test_mistakes(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *yaml, *part;
    } cases[] = {
        {"routes: [{name: a}, {name: a}]", "routes[1].name: \"a\" is used twice"},
        {"routes: [{name: 'a b'}]", "routes[0].name: letters"},
        {"routes: [{params: {}}]", "routes[0].name: missing"},
        {"routes:\n- name: a\n  params: {temprature: 1}", "did you mean temperature?"},
        {"routes:\n- name: a\n  params: {temperature: 9}", "routes[0].params"},
        {"routes:\n- name: a\n  checks: [{id: x, kind: length}, {id: x, kind: regex}]",
         "routes[0].checks[1].id: \"x\" is used twice"},
        {"routes:\n- name: a\n  policy: {knid: hold}", ":3: routes[0].policy.knid: unknown key; "
                                                       "did you mean kind?"},
        {"routes:\n- name: a\n  bounds: [{knob: heat, min: 0}]",
         "routes[0].bounds[0].knob: \"heat\" is no parameter"},
        {"routes:\n- name: a\n  bounds: [{knob: top_p, min: 1, max: 0.5}]",
         "min 1 is above max 0.5"},
        {"routes:\n- name: a\n  params: {temperature: 1}\n  bounds: [{knob: temperature, max: "
         "0.9}]",
         "the first revision has temperature 1, outside 0 to 0.9"},
        {"controller:\n  webhooks: [{name: a, url: 'http://h/'}, {name: a, url: 'http://h/'}]",
         "controller.webhooks[1].name: \"a\" is used twice"},
        {"controller:\n  webhooks: [{name: a, url: 'ftp://h/'}]", "must begin with http://"},
        {"controller:\n  webhooks: [{name: a, url: 'http://h/', events: [rolback]}]",
         "webhooks[0].events[0]: \"rolback\" is no action"},
        {"log_level: loud", "log_level: must be debug"},
        {"engine: {backend: cpu}", ":1: engine.backend: unknown key; it is device now"},
        {"engine: {port: 70000}", ":1: engine.port: must be an integer from 0 to 65535"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->e = (struct err){0};
        assert_int_equal(load(f, cases[i].yaml), ERR_INVALID);
        if (strncmp(f->e.msg, f->path, strlen(f->path)) || !strstr(f->e.msg, cases[i].part))
            fail_msg("'%s' lacks file or '%s'", f->e.msg, cases[i].part);
    }
}

static void test_paths(void **state)
{
    struct fixture *f = *state;
    assert_ok(load(f, "state_dir: /var/lib/m"), &f->e);
    assert_string_equal(milepost_config_path(&f->c, STR("x.sqlite"), &f->arena),
                        "/var/lib/m/x.sqlite");
    assert_string_equal(milepost_config_path(&f->c, STR("/y"), &f->arena), "/y");
}

static void test_keys(void **state)
{
    struct fixture *f = *state;
    struct str key;
    setenv("MILEPOST_TEST_KEY", " secret\n", 1);
    assert_ok(milepost_config_key(STR(""), "MILEPOST_TEST_KEY", &f->arena, &key, &f->e), &f->e);
    assert_str(key, "secret");
    unsetenv("MILEPOST_TEST_KEY");
    assert_ok(milepost_config_key(STR(""), "MILEPOST_TEST_KEY", &f->arena, &key, &f->e), &f->e);
    assert_str(key, "");
    assert_ok(io_write_file(f->path, STR("k1\n"), &f->e), &f->e);
    assert_ok(milepost_config_key(str_from(f->path), "X", &f->arena, &key, &f->e), &f->e);
    assert_str(key, "k1");
    assert_ok(io_write_file(f->path, STR("\n"), &f->e), &f->e);
    assert_int_equal(milepost_config_key(str_from(f->path), "X", &f->arena, &key, &f->e),
                     ERR_INVALID);
    assert_int_equal(milepost_config_key(STR("/nonexistent"), "X", &f->arena, &key, &f->e), ERR_IO);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_no_file_is_enough),
        CASE(test_deployed_file),
        CASE(test_deployed_file_names_every_key),
        CASE(test_mistakes),
        CASE(test_paths),
        CASE(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
