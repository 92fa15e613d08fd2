/* Orders over the bus's in-memory twin: each ends once, by its own engine's answer or by time. */
#include "common/test.h"
#include "controller/engine_orders.h"

#include <string.h>

struct world {
    struct bus *bus;
    struct bus_socket *router, *engine;
    struct engine_orders orders;
    struct arena arena;
    uint32_t n_done;
};

static void done(struct command *c)
{
    struct world *w = c->ctx;
    w->n_done++;
}

static int set_up(void **state)
{
    struct world *w = test_calloc(1, sizeof *w);
    struct err e = {0};
    struct bus_options r = {.kind = BUS_ROUTER, .address = "ipc:///control", .bind = true};
    struct bus_options d = {.kind = BUS_DEALER, .address = "ipc:///control", .identity = "e1"};
    arena_init(&w->arena, MiB);
    assert_ok(bus_open_memory(&w->bus, &e), &e);
    assert_ok(bus_socket_open(&w->router, w->bus, &r, &e), &e);
    assert_ok(bus_socket_open(&w->engine, w->bus, &d, &e), &e);
    assert_ok(bus_send(w->engine, STR(""), STR("{}"), &e), &e);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    bus_socket_close(w->engine);
    bus_socket_close(w->router);
    bus_close(w->bus);
    arena_free(&w->arena);
    test_free(w);
    return 0;
}

static struct command *order(struct world *w, const char *name, uint64_t now_ms)
{
    struct err e = {0};
    struct command *c = command_new(COMMAND_ENGINE);
    c->engine = STR("e1");
    c->order = str_from(name);
    c->done = done;
    c->ctx = w;
    assert_ok(
        engine_orders_send(&w->orders, w->router, STR("e1"), (struct mono){now_ms * 1000}, c, &e),
        &e);
    return c;
}

/* The order as the engine gets it. */
static struct control_command arrived(struct world *w)
{
    struct control m;
    struct err e = {0};
    struct buf b;
    buf_init(&b, MiB);
    assert_ok(bus_receive(w->engine, 1000, NULL, &b, &e), &e);
    assert_ok(control_decode(buf_str(&b), &w->arena, &m, &e), &e);
    buf_free(&b);
    assert_int_equal(m.type, CONTROL_COMMAND);
    return m.command;
}

static void test_answers(void **state)
{
    struct world *w = *state;
    struct command *good = order(w, "drain", 0), *bad = order(w, "load_weights", 0);
    struct control_command first = arrived(w), second = arrived(w);
    assert_true(str_eq_c(first.name, "drain") && first.id != second.id);
    struct control_result refused = {second.id, false, STR("no such file")};
    engine_orders_result(&w->orders, STR("e2"), &refused); /* another engine's word */
    engine_orders_result(&w->orders, STR("e1"),
                         &(struct control_result){first.id + 7, true, STR("x")});
    assert_int_equal(w->n_done, 0);
    engine_orders_result(&w->orders, STR("e1"), &refused);
    engine_orders_result(&w->orders, STR("e1"), &refused); /* twice */
    engine_orders_result(&w->orders, STR("e1"),
                         &(struct control_result){first.id, true, STR("drains")});
    assert_int_equal(w->n_done, 2);
    assert_string_equal(good->message, "drains");
    assert_int_equal(good->err.code, ERR_OK);
    assert_int_equal(bad->err.code, ERR_CONFLICT);
    assert_non_null(strstr(bad->err.msg, "no such file"));
    command_free(good);
    command_free(bad);
}

static void test_time(void **state)
{
    struct world *w = *state;
    struct command *quick = order(w, "drain", 0), *slow = order(w, "load_weights", 0);
    engine_orders_expire(&w->orders, (struct mono){(ENGINE_ORDER_MS - 1) * 1000ull});
    assert_int_equal(w->n_done, 0);
    engine_orders_expire(&w->orders, (struct mono){ENGINE_ORDER_MS * 1000ull});
    assert_int_equal(w->n_done, 1);
    assert_int_equal(quick->err.code, ERR_TIMEOUT);
    engine_orders_expire(&w->orders, (struct mono){UINT64_MAX});
    assert_int_equal(w->n_done, 2);
    assert_int_equal(slow->err.code, ERR_TIMEOUT);
    command_free(quick);
    command_free(slow);
}

static void test_too_many(void **state)
{
    struct world *w = *state;
    struct command *all[ENGINE_ORDERS_MAX], *more = command_new(COMMAND_ENGINE);
    struct err e = {0};
    for (int i = 0; i < ENGINE_ORDERS_MAX; i++)
        all[i] = order(w, "drain", 0);
    more->order = STR("drain");
    assert_int_equal(
        engine_orders_send(&w->orders, w->router, STR("e1"), (struct mono){0}, more, &e), ERR_BUSY);
    assert_int_equal(engine_orders_send(&(struct engine_orders){0}, w->router, STR("nobody"),
                                        (struct mono){0}, more, &e),
                     ERR_NOT_FOUND);
    engine_orders_expire(&w->orders, (struct mono){UINT64_MAX});
    assert_int_equal(w->n_done, ENGINE_ORDERS_MAX);
    for (int i = 0; i < ENGINE_ORDERS_MAX; i++)
        command_free(all[i]);
    command_free(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
