/* One model on several processes gives the tokens of one process: each architecture, two and four
 * ranks, mixed batches, a step begun while the one before is under way; and an end that every rank
 * sees, whoever fails. */
#include "common/test.h"

#include "engine/model/arch.h"
#include "engine/model/gguf.h"
#include "kernels/comm/comm.h"
#include "kernels/cuda/device.h"
#include "kernels/draw.h"
#include "kernels/simt/simt.h"
#include "tests/harness/tiny_model.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_EMULATOR = 0 }; /* minutes under a sanitizer */
#else
enum { HAS_EMULATOR = 1 };
#endif

enum { N_SEQ = 3, N_NEW = 24, N_BLOCKS = 32, MAX_TOK = 64, MAX_VOCAB = 1024 };

/* Where ranks sum on their devices, in another order than one does. Relative to the largest logit.
 */
static const float SUM_TOLERANCE = 1e-2f;

struct run {
    int32_t token[N_SEQ][N_NEW];
    float logits[N_NEW][N_SEQ][MAX_VOCAB]; /* drawn on the device: only of the last sequence */
    uint64_t comm_us;
};

static int open_model(struct model **out, const char *path, const char *backend, struct comm *ranks,
                      struct err *e)
{
    struct gguf *file;
    bool has_helpers = ranks != NULL && strcmp(backend, "cpu") == 0; /* ops end in other threads */
    const struct model_options o = {.backend = backend,
                                    .n_threads = has_helpers ? 2 : 1,
                                    .n_kv_blocks = N_BLOCKS,
                                    .max_batch_tokens = MAX_TOK,
                                    .max_batch_rows = N_SEQ,
                                    .ranks = ranks};
    int rc = gguf_open(&file, path, e);
    if (rc != ERR_OK)
        return rc;
    rc = model_open(out, file, &o, e);
    gguf_close(file);
    return rc;
}

static int32_t best(const float *logits, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[at])
            at = i;
    return (int32_t)at;
}

/* Greedy, on the device where it can; but the last row always on the host, for its logits. */
static int draw(struct model *m, const struct model_batch *b, struct run *out, uint32_t step,
                struct err *e)
{
    uint32_t n_vocab = model_get_info(m)->n_vocab;
    bool can_draw = model_can_draw(m);
    struct kern_draw wanted[N_SEQ] = {
        {.repetition = 1, .top_p = 1}, {.repetition = 1, .top_p = 1}, {.on_host = true}};
    struct kern_drawn drawn[N_SEQ];
    float *logits = malloc(sizeof *logits * N_SEQ * n_vocab);
    int rc =
        can_draw ? model_start(m, b, wanted, drawn, logits, e) : model_forward(m, b, logits, e);
    if (rc == ERR_OK && can_draw)
        rc = model_finish(m, e);
    for (uint32_t s = 0; s < N_SEQ && rc == ERR_OK; s++) {
        bool is_drawn = can_draw && s + 1 < N_SEQ;
        out->token[s][step] = is_drawn ? drawn[s].token : best(logits + s * n_vocab, n_vocab);
        if (!is_drawn)
            memcpy(out->logits[step][s], logits + s * n_vocab, n_vocab * sizeof *logits);
    }
    free(logits);
    return rc;
}

/* Three prompts of 5, 18 and 31 tokens in one batch, then a token of each at a time; the last one
 * goes on in copies of its blocks. */
struct work {
    uint32_t table[N_SEQ][4], length[N_SEQ], original[2], copy[2];
    const uint32_t *tables[N_SEQ];
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK], row[N_SEQ];
};

static void init_work(struct work *w)
{
    *w = (struct work){.copy = {N_BLOCKS - 2, N_BLOCKS - 1}};
    for (uint32_t s = 0; s < N_SEQ; s++) {
        w->tables[s] = w->table[s];
        for (uint32_t b = 0; b < 4; b++)
            w->table[s][b] = (s * 4 + b) * 7 % (N_BLOCKS - 2);
    }
    memcpy(w->original, w->table[N_SEQ - 1], sizeof w->original);
}

/* last: the tokens to go on with, those of a step's rows. */
static struct model_batch next_batch(struct work *w, uint32_t step, uint32_t n_vocab,
                                     const int32_t *last)
{
    static const uint32_t PROMPT[N_SEQ] = {5, 18, 31};
    uint32_t n = 0;
    for (uint32_t s = 0; s < N_SEQ; s++) {
        for (uint32_t k = step == 0 ? PROMPT[s] : 1; k > 0; k--) {
            w->token[n] = step ? last[s] : (int32_t)((n * 37 + s) % n_vocab);
            w->position[n] = w->length[s]++;
            w->seq[n++] = s;
        }
        w->row[s] = n - 1;
    }
    if (step == 1)
        memcpy(w->table[N_SEQ - 1], w->copy, sizeof w->copy);
    return (struct model_batch){.n_tok = n,
                                .token = w->token,
                                .position = w->position,
                                .seq = w->seq,
                                .block_table = w->tables,
                                .n_row = N_SEQ,
                                .row_token = w->row,
                                .n_copy = step == 1 ? 2 : 0,
                                .copy_from = w->original,
                                .copy_to = w->copy};
}

static int generate(struct model *m, struct run *out, struct err *e)
{
    uint32_t n_vocab = model_get_info(m)->n_vocab;
    int32_t last[N_SEQ] = {0};
    struct work w;
    int rc = ERR_OK;
    init_work(&w);
    for (uint32_t step = 0; step < N_NEW && rc == ERR_OK; step++) {
        const struct model_batch b = next_batch(&w, step, n_vocab, last);
        rc = draw(m, &b, out, step, e);
        for (uint32_t s = 0; s < N_SEQ; s++)
            last[s] = out->token[s][step];
    }
    out->comm_us = model_comm_us(m);
    return rc;
}

/* The same, each step begun before the one before is waited for, whose tokens stay where they are.
 */
static int generate_ahead(struct model *m, struct run *out, struct err *e)
{
    static const int32_t ROWS[N_SEQ] = {-1, -2, -3};
    static const struct kern_draw GREEDY = {.repetition = 1, .top_p = 1};
    const struct kern_draw wanted[N_SEQ] = {GREEDY, GREEDY, GREEDY};
    struct kern_drawn drawn[2][N_SEQ];
    struct work w;
    uint32_t n_under_way = 0;
    int rc = ERR_OK;
    init_work(&w);
    for (uint32_t step = 0; step <= N_NEW && rc == ERR_OK; step++) {
        if (step < N_NEW) {
            const struct model_batch b = next_batch(&w, step, model_get_info(m)->n_vocab, ROWS);
            rc = model_start(m, &b, wanted, drawn[step % 2], NULL, e);
            n_under_way += rc == ERR_OK;
        }
        if (step == 0 || rc != ERR_OK)
            continue;
        rc = model_finish(m, e);
        n_under_way--;
        for (uint32_t s = 0; s < N_SEQ; s++)
            out->token[s][step - 1] = drawn[(step - 1) % 2][s].token;
    }
    for (; n_under_way; n_under_way--)
        (void)!model_finish(m, NULL);
    return rc;
}

/* What rank 1 does: 's' a step is started, 'f' one is waited for. Memory of all processes. */
static struct notes {
    uint32_t n;
    char note[4 * N_NEW];
} * notes;
static const struct kern_ops *plain;
static uint64_t fail_launch; /* rank 1's device breaks there; 0: never */

static void put(char what)
{
    if (notes->n + 1 < sizeof notes->note)
        notes->note[notes->n++] = what;
}

static int noted_start(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    put('s');
    return plain->start(d, body, arg, e);
}

static int noted_finish(struct kern_device *d, struct err *e)
{
    put('f');
    return plain->finish(d, e);
}

/* A follower's exit code is its err_code. */
static int follow(const char *path, const char *backend, const char *id, uint32_t rank,
                  uint32_t size)
{
    struct comm *c;
    struct model *m;
    struct err e;
    int rc = COMM_SHM.join(&c, id, rank, size, NULL);
    if (rc == ERR_OK)
        rc = open_model(&m, path, backend, c, NULL);
    if (rc == ERR_OK) {
        plain = m->ops;
        struct kern_ops noted = *plain;
        noted.start = noted_start;
        noted.finish = noted_finish;
        if (notes && rank == 1)
            m->ops = &noted;
        if (rank == 1)
            simt_fail_launch(fail_launch);
        rc = model_follow(m, &e);
        model_close(m);
    }
    return rc;
}

struct group {
    uint32_t size;
    pid_t pid[COMM_MAX_RANKS];
    struct comm *comm;
};

/* bad_rank: opens another file, so that it fails; 0: none. */
static void start(struct group *g, const char *path, const char *backend, uint32_t size,
                  uint32_t bad_rank)
{
    char id[COMM_ID_BYTES];
    struct err e = {0};
    g->size = size;
    assert_ok(COMM_SHM.make_id(size, id, &e), &e);
    for (uint32_t r = 1; r < size; r++) {
        g->pid[r] = fork();
        if (g->pid[r] == 0)
            _exit(follow(r == bad_rank ? "/dev/null" : path, backend, id, r, size));
    }
    assert_ok(COMM_SHM.join(&g->comm, id, 0, size, &e), &e);
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void run_alone(const char *path, const char *backend, struct run *out)
{
    struct err e = {0};
    struct model *m;
    assert_ok(open_model(&m, path, backend, NULL, &e), &e);
    assert_ok(generate(m, out, &e), &e);
    assert_int_equal(out->comm_us, 0);
    model_close(m);
}

/* Of the last row. */
static void compare_nearly(const char *what, const struct run *one, const struct run *many)
{
    float size = 0, worst = 0;
    for (uint32_t i = 0; i < MAX_VOCAB; i++) {
        float a = one->logits[N_NEW - 1][N_SEQ - 1][i], b = many->logits[N_NEW - 1][N_SEQ - 1][i];
        size = fmaxf(size, fabsf(a));
        worst = fmaxf(worst, fabsf(a - b));
    }
    if (worst > SUM_TOLERANCE * size)
        fail_msg("%s: logits differ by %g of %g", what, (double)worst, (double)size);
}

static void compare_bits(const char *what, const struct run *one, const struct run *many)
{
    for (uint32_t i = 0; i < N_NEW; i++)
        for (uint32_t s = 0; s < N_SEQ; s++)
            if (memcmp(one->logits[i][s], many->logits[i][s], sizeof one->logits[i][s]) != 0)
                fail_msg("%s: logits of sequence %u at token %u are other bits", what, s, i);
}

static void compare(const char *what, bool is_simt, const struct run *one, const struct run *many)
{
    if (is_simt)
        compare_nearly(what, one, many);
    else
        compare_bits(what, one, many);
    for (uint32_t s = 0; s < N_SEQ; s++)
        for (uint32_t i = 0; i < N_NEW; i++)
            if (one->token[s][i] != many->token[s][i])
                fail_msg("%s: sequence %u differs at token %u", what, s, i);
}

enum { PATH_BYTES = 40 };

/* A file of its own for the model; the caller unlinks it. */
static void write_model(const struct tiny_model *t, char path[PATH_BYTES])
{
    struct err e = {0};
    snprintf(path, PATH_BYTES, "/tmp/milepost-ranks-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(tiny_model_write(t, path, &e), &e);
}

static void check_ranks(const struct tiny_model *t, const char *backend, uint32_t size)
{
    char path[PATH_BYTES], what[80];
    struct run *one = calloc(2, sizeof *one), *many = one + 1;
    struct err e = {0};
    struct group g = {0};
    struct model *m;
    write_model(t, path);
    run_alone(path, backend, one);
    start(&g, path, backend, size, 0);
    assert_ok(open_model(&m, path, backend, g.comm, &e), &e);
    assert_ok(generate(m, many, &e), &e);
    if (strcmp(backend, "simt") == 0) /* pieces between collectives, again and again */
        assert_true(m->device->graphs.n_replayed > 2 * N_NEW && model_can_draw(m));
    model_close(m);
    for (uint32_t r = 1; r < size; r++)
        assert_int_equal(end_of(g.pid[r]), ERR_OK);
    COMM_SHM.leave(g.comm);
    snprintf(what, sizeof what, "%s on %s, %u ranks", t->architecture, backend, size);
    compare(what, strcmp(backend, "simt") == 0, one, many);
    assert_true(many->comm_us > 0);
    free(one);
    unlink(path);
}

/* Rank 1 had two steps under way, and never more: whatever its speed, one of them was there in
 * time. */
static void check_order(void)
{
    uint32_t n_under_way = 0, n_started = 0;
    for (const char *c = notes->note; *c; c++) {
        n_started += *c == 's';
        n_under_way += *c == 's' ? 1 : -1;
        assert_in_range(n_under_way, 0, 2);
    }
    assert_int_equal(n_started, N_NEW);
    assert_int_equal(n_under_way, 0);
    assert_non_null(strstr(notes->note, "ss"));
}

static void check_ahead(const struct tiny_model *t, uint32_t size)
{
    char path[PATH_BYTES];
    struct run *one = calloc(2, sizeof *one), *many = one + 1;
    struct err e = {0};
    struct group g = {0};
    struct model *m;
    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(notes != MAP_FAILED);
    write_model(t, path);
    run_alone(path, "simt", one);
    start(&g, path, "simt", size, 0);
    assert_ok(open_model(&m, path, "simt", g.comm, &e), &e);
    assert_false(model_can_overlap(m)); /* sums go through the host: nothing to gain */
    assert_ok(generate_ahead(m, many, &e), &e);
    model_close(m);
    for (uint32_t r = 1; r < size; r++)
        assert_int_equal(end_of(g.pid[r]), ERR_OK);
    COMM_SHM.leave(g.comm);
    assert_memory_equal(many->token, one->token, sizeof one->token);
    check_order();
    munmap(notes, sizeof *notes);
    notes = NULL;
    free(one);
    unlink(path);
}

static void check_emulated(const struct tiny_model *t, uint32_t size)
{
    if (!HAS_EMULATOR)
        return;
    check_ranks(t, "simt", size);
    check_ahead(t, size);
}

static void test_several_ranks_give_the_tokens_of_one(void **state)
{
    static const char *const ARCHS[] = {"llama", "qwen2", "qwen3", "qwen3moe", "mixtral", "gemma3"};
    (void)state;
    for (size_t i = 0; i < sizeof ARCHS / sizeof *ARCHS; i++) {
        struct tiny_model t = tiny_model_of(ARCHS[i]);
        check_ranks(&t, "cpu",
                    2); /* gemma3 has one KV head: the first rank computes it for itself */
        check_ranks(&t, "cpu", 4);
        check_ranks(&t, "ref", 2);
        check_ranks(&t, "ref", 4);
        if (i == 0)
            check_emulated(&t, 2);
        else if (HAS_EMULATOR && strcmp(ARCHS[i], "mixtral") == 0)
            check_ranks(&t, "simt", 2);
    }
}

static void test_four_ranks_and_uneven_shares(void **state)
{
    struct tiny_model t = tiny_model_default();
    (void)state;
    t.n_head = 8;
    t.d_head = 16;
    t.n_head_kv = 4;
    t.has_own_head = true;
    check_ranks(&t, "cpu", 4);
    check_emulated(&t, 4);
    check_ranks(&t, "cpu", 3); /* 1, 1 and 2 KV heads */
}

/* On a device there are no more ranks than KV heads, and nowhere more than rows. */
static void check_refused(const struct tiny_model *t, const char *backend, const char *why)
{
    char path[PATH_BYTES];
    struct group g = {0};
    struct err e = {0};
    struct model *m;
    write_model(t, path);
    start(&g, path, backend, 3, 0);
    assert_int_equal(open_model(&m, path, backend, g.comm, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "engine.tp_size"));
    assert_non_null(strstr(e.msg, why));
    for (uint32_t r = 1; r < 3; r++)
        assert_int_equal(end_of(g.pid[r]), ERR_UNSUPPORTED);
    COMM_SHM.leave(g.comm);
    unlink(path);
}

static void test_too_many_ranks_are_refused_by_all(void **state)
{
    struct tiny_model t = tiny_model_default();
    (void)state;
    check_refused(&t, "simt", "KV head (2)");
    t.d_ff = 2;
    t.matrix_dtype = DTYPE_F32;
    check_refused(&t, "ref", "2 rows");
}

static void test_a_rank_that_cannot_load_says_why_to_the_first(void **state)
{
    struct tiny_model t = tiny_model_default();
    char path[PATH_BYTES];
    struct group g = {0};
    struct err e = {0};
    struct model *m;
    (void)state;
    write_model(&t, path);
    start(&g, path, "cpu", 2, 1);
    assert_int_equal(open_model(&m, path, "cpu", g.comm, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "rank 1"));
    assert_int_not_equal(end_of(g.pid[1]), ERR_OK);
    COMM_SHM.leave(g.comm);
    unlink(path);
}

/* Between steps; on simt the ranks meet in the devices' memory (kernels/cuda/ranks.c). */
static void check_death(const char *backend)
{
    struct tiny_model t = tiny_model_default();
    char path[PATH_BYTES];
    struct run *run = calloc(1, sizeof *run);
    struct group g = {0};
    struct err e = {0};
    struct model *m;
    write_model(&t, path);
    start(&g, path, backend, 2, 0);
    assert_ok(open_model(&m, path, backend, g.comm, &e), &e);
    assert_ok(generate(m, run, &e), &e);
    kill(g.pid[1], SIGKILL);
    assert_int_equal(generate(m, run, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "rank 1 of 2"));
    assert_int_equal(generate(m, run, &e), ERR_DEVICE); /* and again */
    model_close(m);
    assert_int_equal(end_of(g.pid[1]), 1000 + SIGKILL);
    COMM_SHM.leave(g.comm);
    free(run);
    unlink(path);
}

static void test_a_rank_that_dies_ends_the_model(void **state)
{
    (void)state;
    check_death("cpu");
    if (HAS_EMULATOR)
        check_death("simt");
}

/* Rank 1 is killed, or its device breaks, with two steps under way. */
static void check_end_ahead(bool is_killed)
{
    struct tiny_model t = tiny_model_default();
    char path[PATH_BYTES];
    struct run *run = calloc(1, sizeof *run);
    struct group g = {0};
    struct err e = {0};
    struct model *m;
    write_model(&t, path);
    fail_launch = is_killed ? 0 : 100;
    start(&g, path, "simt", 2, 0);
    fail_launch = 0;
    assert_ok(open_model(&m, path, "simt", g.comm, &e), &e);
    if (is_killed)
        kill(g.pid[1], SIGKILL);
    assert_int_equal(generate_ahead(m, run, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, is_killed ? "rank 1 of 2" : "the device failed"));
    assert_int_equal(generate_ahead(m, run, &e), ERR_DEVICE); /* and again */
    model_close(m);
    assert_int_equal(end_of(g.pid[1]), is_killed ? 1000 + SIGKILL : ERR_DEVICE);
    COMM_SHM.leave(g.comm);
    free(run);
    unlink(path);
}

static void test_a_rank_that_ends_with_steps_under_way(void **state)
{
    (void)state;
    if (!HAS_EMULATOR)
        skip();
    check_end_ahead(true);
    check_end_ahead(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_ranks_give_the_tokens_of_one),
        cmocka_unit_test(test_four_ranks_and_uneven_shares),
        cmocka_unit_test(test_too_many_ranks_are_refused_by_all),
        cmocka_unit_test(test_a_rank_that_cannot_load_says_why_to_the_first),
        cmocka_unit_test(test_a_rank_that_dies_ends_the_model),
        cmocka_unit_test(test_a_rank_that_ends_with_steps_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
