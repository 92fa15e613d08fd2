/* Order, bounds, closing, the eventfd, and many threads at once. */
#include "common/test.h"

#include "common/queue.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ITEMS = 20000, THREADS = 3 };

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_order_and_bounds(void **state)
{
    (void)state;
    struct queue *q;
    assert_int_equal(queue_open(&q, 2, true, NULL), ERR_OK);
    int a, b, c;
    assert_false(is_readable(queue_fd(q)));
    assert_true(queue_try_put(q, &a) && queue_try_put(q, &b));
    assert_false(queue_try_put(q, &c));
    assert_true(is_readable(queue_fd(q)));
    assert_ptr_equal(queue_try_take(q), &a);
    assert_ptr_equal(queue_take(q, 0), &b);
    assert_null(queue_try_take(q));
    assert_false(is_readable(queue_fd(q)));
    assert_null(queue_take(q, 1000));
    assert_true(queue_put(q, &c));
    queue_close(q);
    assert_false(queue_put(q, &a));
    assert_ptr_equal(queue_take(q, -1), &c);
    assert_null(queue_take(q, -1));
    queue_free(q);
}

struct shared {
    struct queue *q;
    _Atomic uint64_t sum;
};

static void *produce(void *arg)
{
    struct shared *s = arg;
    for (uintptr_t i = 1; i <= ITEMS; i++)
        if (!queue_put(s->q, (void *)i))
            break;
    return NULL;
}

static void *consume(void *arg)
{
    struct shared *s = arg;
    for (void *item; (item = queue_take(s->q, -1));)
        atomic_fetch_add(&s->sum, (uintptr_t)item);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct shared s = {0};
    pthread_t in[THREADS], out[THREADS];
    assert_int_equal(queue_open(&s.q, 16, true, NULL), ERR_OK);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&out[i], NULL, consume, &s);
        pthread_create(&in[i], NULL, produce, &s);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(in[i], NULL);
    queue_close(s.q);
    for (int i = 0; i < THREADS; i++)
        pthread_join(out[i], NULL);
    assert_true(s.sum == (uint64_t)THREADS * ITEMS * (ITEMS + 1) / 2);
    queue_free(s.q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_bounds),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
