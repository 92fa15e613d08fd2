/* The same request with the same seed gives the same tokens alone and inside any batch, on a real
 * (tiny, random) model: chunked prompts, shared prefixes, preemption and cancels included, drawn on
 * the device or, where a bias (of nothing) asks for it, on the host. A dense model and a mixture of
 * experts, each backend of this build; MILEPOST_TEST_MODEL adds a model people use. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/generator.h"
#include "engine/model/gguf.h"
#include "kernels/ops.h"
#include "tests/harness/tiny_model.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct generator_ops *const ops = &GENERATOR_LOCAL;

enum { MAX_PROMPT = 120, MAX_NEW = 40, MAX_JOBS = 24 };

struct job {
    struct gen_request request;
    struct gen_handle handle;
    struct generator *generator;
    int32_t prompt[MAX_PROMPT], tokens[MAX_NEW];
    float logprob[MAX_NEW];
    uint32_t n_tokens, n_ends, cancel_after;
    struct gen_event end;
};

static void on_event(void *ctx, const struct gen_event *e)
{
    struct job *j = ctx;
    assert_int_equal(j->n_ends, 0);
    if (e->type == GEN_END) {
        j->n_ends = 1;
        j->end = *e;
        return;
    }
    j->logprob[j->n_tokens] = e->logprob;
    j->tokens[j->n_tokens++] = e->token;
    if (j->n_tokens == j->cancel_after)
        ops->cancel(j->generator, j->handle);
}

static void random_job(struct rng *r, struct job *j, uint32_t n_vocab, uint32_t max_new)
{
    static const double temperatures[] = {0, 0.7, 1.5};
    struct param_set none = {0};
    *j = (struct job){0};
    struct gen_request *q = &j->request;
    params_resolve(&none, NULL, &q->params);
    q->n_prompt = 1 + (uint32_t)rng_below(r, MAX_PROMPT);
    uint32_t family = (uint32_t)rng_below(r, 2), shared = (uint32_t)rng_below(r, q->n_prompt + 1);
    for (uint32_t i = 0; i < q->n_prompt; i++)
        j->prompt[i] = (int32_t)(i < shared ? 10 + family + i % 50 : rng_below(r, n_vocab));
    q->seed = rng_u64(r);
    q->ignore_end = true;
    q->params.v[PARAM_TEMPERATURE] = temperatures[rng_below(r, 3)];
    q->params.v[PARAM_TOP_P] = rng_below(r, 2) ? 1 : 0.9;
    q->params.v[PARAM_REPETITION_PENALTY] = rng_below(r, 2) ? 1 : 1.2;
    q->params.v[PARAM_MAX_NEW_TOKENS] = 1 + (double)rng_below(r, max_new);
    q->on_event = on_event;
}

static void submit(struct generator *g, struct job *j)
{
    struct err e = {0};
    j->generator = g;
    j->request.prompt = j->prompt;
    j->request.ctx = j;
    assert_ok(ops->submit(g, &j->request, &j->handle, &e), &e);
}

static void wait_for_end(struct generator *g, const struct job *j)
{
    struct pollfd fd = {.fd = ops->fd(g), .events = POLLIN};
    for (int i = 0; i < 100000 && j->n_ends == 0; i++) {
        poll(&fd, 1, 1000);
        ops->drain(g);
    }
    assert_int_equal(j->n_ends, 1);
    if (j->end.finish == GEN_ERROR)
        fail_msg("generation failed: %s", j->end.err.msg);
}

/* How a workload is run: alone, each job has all blocks, no cache, one big prefill, and each step
 * ends before the next is planned. */
struct setting {
    uint32_t n_kv_blocks, max_running, max_batch_tokens, prefill_chunk;
    bool prefix_cache, has_cancels, is_static, no_overlap;
    uint32_t draft_tokens;
};

static struct generator *open_generator(struct model *m, const struct setting *s)
{
    struct gen_config c = {.clock = &CLOCK_REAL,
                           .model = m,
                           .n_kv_blocks = s->n_kv_blocks,
                           .max_batch_tokens = s->max_batch_tokens,
                           .max_running = s->max_running,
                           .max_queue = MAX_JOBS,
                           .prefill_chunk = s->prefill_chunk,
                           .max_context = 512,
                           .prefix_cache = s->prefix_cache,
                           .draft_tokens = s->draft_tokens,
                           .is_static = s->is_static,
                           .no_overlap = s->no_overlap};
    struct generator *g = NULL;
    struct err e = {0};
    assert_ok(ops->open(&g, &c, &e), &e);
    return g;
}

static void assert_same(const struct job *got, const struct job *want)
{
    bool is_whole = got->end.finish == GEN_LENGTH;
    assert_true(is_whole || (got->end.finish == GEN_CANCELLED && got->cancel_after > 0));
    assert_true(is_whole ? got->n_tokens == want->n_tokens : got->n_tokens <= want->n_tokens);
    for (uint32_t i = 0; i < got->n_tokens; i++) {
        if (got->tokens[i] != want->tokens[i] || got->logprob[i] != want->logprob[i])
            fail_msg("token %u is %d (%.9g) in the batch, %d (%.9g) alone", i, got->tokens[i],
                     (double)got->logprob[i], want->tokens[i], (double)want->logprob[i]);
    }
}

struct totals {
    uint64_t preemptions, cancelled, cached, tokens, steps, device_draws, host_draws;
};

static void run_batch(struct model *m, const struct setting *s, struct job *jobs, uint32_t n,
                      struct rng *r, struct totals *sum)
{
    struct generator *g = open_generator(m, s);
    for (uint32_t i = 0; i < n; i++) {
        if (s->has_cancels)
            jobs[i].cancel_after = rng_below(r, 4) == 0 ? 1 + (uint32_t)rng_below(r, MAX_NEW) : 0;
        submit(g, &jobs[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        wait_for_end(g, &jobs[i]);
        sum->cancelled += jobs[i].end.finish == GEN_CANCELLED;
    }
    struct gen_stats stats;
    ops->stats(g, &stats);
    assert_int_equal(stats.kv_tokens_used, 0);
    sum->preemptions += stats.preemptions;
    sum->cached += stats.cached_tokens;
    sum->tokens += stats.generated_tokens;
    sum->steps += stats.steps;
    sum->device_draws += stats.device_draws;
    sum->host_draws += stats.host_draws;
    ops->close(g);
}

/* Greedy; the first n_shared tokens of the prompt are those of all others, no further one is. */
static void plain_job(struct job *j, int32_t own, uint32_t n_shared, uint32_t n_prompt,
                      uint32_t max_new)
{
    struct param_set none = {0};
    *j = (struct job){0};
    params_resolve(&none, NULL, &j->request.params);
    j->request.n_prompt = n_prompt;
    for (uint32_t i = 0; i < n_prompt; i++)
        j->prompt[i] = i < n_shared ? 10 + (int32_t)i : 100 + own * 30 + (int32_t)(i % 30);
    j->request.ignore_end = true;
    j->request.params.v[PARAM_TEMPERATURE] = 0;
    j->request.params.v[PARAM_MAX_NEW_TOKENS] = max_new;
    j->request.on_event = on_event;
}

static void run_alone(struct model *m, struct job *jobs, uint32_t n)
{
    const struct setting single = {128, 1, 256, 256, false, false, false, true, 0};
    for (uint32_t i = 0; i < n; i++) {
        struct generator *g = open_generator(m, &single);
        submit(g, &jobs[i]);
        wait_for_end(g, &jobs[i]);
        ops->close(g);
    }
}

/* The common beginning ends inside a block. Two requests side by side: the second has all of it
 * from the first; then two more, both have it. */
static void check_pairs(struct model *m)
{
    enum { N = 4, SHARED = 2 * KV_BLOCK_TOKENS + 9 };
    static struct job alone[N], pair[N];
    const struct setting s = {128, 4, 64, 64, true, false, false, false, 0};
    for (int i = 0; i < N; i++) {
        plain_job(&alone[i], i, SHARED, SHARED + 3 + (uint32_t)(i % 2) * 6, 3);
        pair[i] = alone[i];
    }
    run_alone(m, alone, N);
    struct generator *g = open_generator(m, &s);
    for (int i = 0; i < N; i += 2) {
        submit(g, &pair[i]);
        submit(g, &pair[i + 1]);
        wait_for_end(g, &pair[i]);
        wait_for_end(g, &pair[i + 1]);
    }
    ops->close(g);
    for (int i = 0; i < N; i++) {
        assert_same(&pair[i], &alone[i]);
        assert_int_equal(pair[i].end.n_cached, i == 0 ? 0 : SHARED);
    }
}

enum { CROWD = 3 };

/* In a pool too small; again until what is wanted was seen: the first may be over before the last
 * comes, and a cancel may come too late. */
static void run_crowd(struct model *m, const struct job *alone, uint32_t cancel_after)
{
    static struct job crowd[CROWD];
    const struct setting s = {6, CROWD, 64, 64, true, false, false, false, 0};
    struct totals sum = {0};
    const uint64_t *seen = cancel_after ? &sum.cancelled : &sum.preemptions;
    for (int tries = 0; tries < 100 && *seen == 0; tries++) {
        for (int i = 0; i < CROWD; i++) {
            crowd[i] = alone[i];
            crowd[i].n_tokens = crowd[i].n_ends = 0;
        }
        crowd[1].cancel_after = cancel_after;
        run_batch(m, &s, crowd, CROWD, NULL, &sum);
        for (int i = 0; i < CROWD; i++)
            assert_same(&crowd[i], &alone[i]);
    }
    assert_true(*seen > 0);
}

/* Three requests that start in one block each and end in three, in a pool of six; one cancelled. */
static void check_crowd(struct model *m)
{
    static struct job alone[CROWD];
    for (int i = 0; i < CROWD; i++)
        plain_job(&alone[i], i, 0, 14, KV_BLOCK_TOKENS + 4);
    run_alone(m, alone, CROWD);
    run_crowd(m, alone, 0);
    run_crowd(m, alone, 2);
}

/* Greedy, so that a random model repeats itself: with drafts it takes fewer steps. */
static void check_drafts(struct model *m)
{
    enum { N = 4 };
    static struct job alone[N], drafted[N];
    const struct setting s = {128, 1, 256, 256, true, false, false, false, 7};
    struct totals sum = {0};
    for (int i = 0; i < N; i++) {
        plain_job(&alone[i], i, 0, 40, MAX_NEW);
        drafted[i] = alone[i];
    }
    run_alone(m, alone, N);
    run_batch(m, &s, drafted, N, NULL, &sum);
    for (int i = 0; i < N; i++)
        assert_same(&drafted[i], &alone[i]);
    print_message("%u tokens in %u steps\n", (unsigned)sum.tokens, (unsigned)sum.steps);
    assert_true(sum.steps < sum.tokens);
}

/* Work for a backend: an emulated device computes a thousand times slower. */
struct amount {
    uint32_t n_jobs, max_new, n_seeds;
    uint32_t first_setting; /* of the batches */
};

static const struct gen_bias NOTHING = {.token = 5, .bias = 0};

static struct totals check_model(struct model *m, const struct amount *a)
{
    static struct job alone[MAX_JOBS], batched[MAX_JOBS];
    const struct setting single = {128, 1, 256, 256, false, false, false, true, 0};
    const struct setting batches[] = {{128, 8, 256, 256, false, false, false, false, 0},
                                      {128, 8, 256, 256, true, true, true, false, 0},
                                      {128, 8, 40, 17, true, false, false, false, 15},
                                      {14, 8, 64, 48, true, true, false, false, 15}};
    struct totals sum = {0};
    for (uint64_t seed = 1; seed <= a->n_seeds; seed++) {
        struct rng r;
        rng_seed(&r, seed);
        for (uint32_t i = 0; i < a->n_jobs; i++) {
            random_job(&r, &alone[i], model_get_info(m)->n_vocab, a->max_new);
            struct generator *g = open_generator(m, &single);
            batched[i] = alone[i];
            submit(g, &alone[i]);
            wait_for_end(g, &alone[i]);
            ops->close(g);
            batched[i].request.bias = &NOTHING;
            batched[i].request.n_bias = seed % 2 && i % 3 == 0; /* else steps overlap */
        }
        for (size_t k = a->first_setting; k < sizeof batches / sizeof *batches; k++) {
            static struct job copy[MAX_JOBS];
            memcpy(copy, batched, sizeof copy);
            run_batch(m, &batches[k], copy, a->n_jobs, &r, &sum);
            for (uint32_t i = 0; i < a->n_jobs; i++)
                assert_same(&copy[i], &alone[i]);
        }
    }
    return sum;
}

static struct model *open_model(const char *path, const char *backend)
{
    struct gguf *file = NULL;
    struct model *m = NULL;
    struct err e = {0};
    const struct model_options o = {
        .backend = backend, .n_kv_blocks = 128, .max_batch_tokens = 256, .max_batch_rows = 16};
    assert_ok(gguf_open(&file, path, &e), &e);
    assert_ok(model_open(&m, file, &o, &e), &e);
    gguf_close(file);
    return m;
}

/* Under a sanitizer it has its own tests (tests/kernels/simt). */
static bool is_run(const struct kern_ops *k)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (strcmp(k->name, "simt") == 0)
        return false;
#endif
    return !k->is_here || k->is_here();
}

static struct amount amount_for(const char *backend, bool is_mixture)
{
    bool is_emulated = strcmp(backend, "simt") == 0;
    if (is_mixture)
        return (struct amount){is_emulated ? 6 : 8, is_emulated ? 16 : 30, 1, 3};
    return is_emulated ? (struct amount){8, 30, 1, 3} : (struct amount){MAX_JOBS, MAX_NEW, 2, 0};
}

static void check_tiny(const char *backend, const char *architecture)
{
    char path[64];
    struct err e = {0};
    struct tiny_model tiny = tiny_model_of(architecture);
    snprintf(path, sizeof path, "/tmp/milepost_generator_test.%d.gguf", (int)getpid());
    assert_ok(tiny_model_write(&tiny, path, &e), &e);
    struct model *m = open_model(path, backend);
    unlink(path);
    struct amount a = amount_for(backend, tiny.n_expert > 0);
    struct totals t = check_model(m, &a);
    print_message(
        "%s on %s: %u tokens in batches, %u drawn on the device, %u cancelled, %u preemptions, "
        "%u tokens from the cache\n",
        architecture, backend, (unsigned)t.tokens, (unsigned)t.device_draws, (unsigned)t.cancelled,
        (unsigned)t.preemptions, (unsigned)t.cached);
    assert_true(t.host_draws > 0 && (t.device_draws > 0) == model_can_draw(m));
    assert_true(t.cached > 0 || tiny.n_expert > 0); /* of few jobs: check_pairs */
    check_pairs(m);
    check_crowd(m);
    if (!model_can_draw(m))
        check_drafts(m);
    model_close(m);
}

static void test_tiny_on_each_backend(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (const struct kern_ops *k; (k = kern_at(n)); n++)
        if (is_run(k))
            check_tiny(k->name, "llama");
    assert_true(n >= 1);
}

static void test_tiny_mixture_on_each_backend(void **state)
{
    (void)state;
    const struct kern_ops *k;
    for (uint32_t n = 0; (k = kern_at(n)); n++)
        if (is_run(k))
            check_tiny(k->name, "qwen3moe");
}

static void test_model_of_environment(void **state)
{
    (void)state;
    const char *path = getenv("MILEPOST_TEST_MODEL");
    if (!path) {
        print_message("skipped: no model (set MILEPOST_TEST_MODEL)\n");
        skip();
    }
    struct model *m = open_model(path, NULL);
    struct totals t = check_model(m, &(struct amount){16, MAX_NEW, 1, 0});
    print_message("%s: %u tokens in batches, %u preemptions\n", path, (unsigned)t.tokens,
                  (unsigned)t.preemptions);
    check_pairs(m);
    check_drafts(m);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_on_each_backend),
        cmocka_unit_test(test_tiny_mixture_on_each_backend),
        cmocka_unit_test(test_model_of_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
