/* Both merging ways against the definition: repeatedly the lowest rank, leftmost first. */
#include "engine/text/fixture_test.h"

#include "common/rng.h"

#include <stdio.h>

enum { N_MERGES = 200, MAX_WORD = 400 };

struct oracle {
    char text[N_MERGES][48]; /* "left right" */
    struct fixture f;
    int32_t left[N_MERGES], right[N_MERGES];
    int n;
};

static void whole_of(const char *merge, char *out)
{
    for (; *merge; merge++)
        if (*merge != ' ')
            *out++ = *merge;
    *out = 0;
}

/* A part: one letter of abc, or the whole of an earlier merge. */
static int32_t random_part(const struct oracle *o, struct rng *r, char *out)
{
    if (o->n == 0 || rng_below(r, 2)) {
        out[0] = "abc"[rng_below(r, 3)];
        out[1] = 0;
        return out[0];
    }
    uint64_t rank = rng_below(r, (uint64_t)o->n);
    whole_of(o->text[rank], out);
    return 256 + (int32_t)rank;
}

static bool is_new(const struct oracle *o, const char *whole)
{
    char other[64];
    for (int i = 0; i < o->n; i++) {
        whole_of(o->text[i], other);
        if (strcmp(other, whole) == 0)
            return false;
    }
    return true;
}

/* Merges in random order of length: rank and length must not be the same thing. */
static void make_oracle(struct oracle *o, struct rng *r)
{
    memset(o, 0, sizeof *o);
    for (int tries = 0; o->n < N_MERGES && tries < 4000; tries++) {
        char left[64], right[64], both[64];
        int32_t l = random_part(o, r, left), m = random_part(o, r, right);
        int n = snprintf(both, sizeof both, "%s%s", left, right);
        if (n > 20 || !is_new(o, both))
            continue;
        snprintf(o->text[o->n], sizeof o->text[0], "%.22s %.22s", left, right);
        o->f.merge[o->n] = o->text[o->n];
        o->left[o->n] = l;
        o->right[o->n++] = m;
    }
}

static size_t naive(const struct oracle *o, int32_t *id, size_t n)
{
    for (;;) {
        int best = o->n;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int rank = 0; rank < best; rank++)
                if (o->left[rank] == id[i] && o->right[rank] == id[i + 1]) {
                    best = rank;
                    at = i;
                }
        if (best == o->n)
            return n;
        id[at] = 256 + best;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

static void check_word(const struct oracle *o, const struct tokenizer *t, const char *word,
                       size_t n)
{
    int32_t got[MAX_WORD], want[MAX_WORD];
    size_t n_got;
    struct err e = {0};
    for (size_t i = 0; i < n; i++)
        want[i] = word[i];
    size_t n_want = naive(o, want, n);
    assert_ok(tokenizer_encode(t, (struct str){word, n}, false, got, MAX_WORD, &n_got, &e), &e);
    assert_int_equal(n_got, n_want);
    assert_memory_equal(got, want, n_want * sizeof *want);
}

static void test_against_definition(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 3);
    for (int round = 0; round < 12; round++) {
        struct oracle o;
        struct tokenizer *t;
        struct err e = {0};
        make_oracle(&o, &r);
        assert_true(o.n > 100);
        struct gguf *file = fixture_open(&o.f);
        assert_ok(tokenizer_open(&t, file, &e), &e);
        for (int k = 0; k < 300; k++) {
            char word[MAX_WORD];
            size_t n = 1 + rng_below(&r, k % 10 ? 60 : MAX_WORD - 1); /* both sides of the border */
            uint64_t letters = 1 + rng_below(&r, 3);
            for (size_t i = 0; i < n; i++)
                word[i] = "abc"[rng_below(&r, letters)];
            check_word(&o, t, word, n);
        }
        tokenizer_close(t);
        gguf_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
