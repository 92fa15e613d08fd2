/* Code points become symbols in a list; the heap holds every pair that is a word, by rank of the
 * word and place. A merge makes at most two new pairs. A key counts only while the pair at its
 * place still has its rank: texts of equal rank at one place are the same merge. */
#include "engine/text/spm.h"

#include "common/utf8.h"
#include "engine/model/gguf.h"
#include "engine/text/merge_heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, MAX_TEXT_BYTES = 1 << 28 };
#define NO_RANK UINT32_MAX

struct symbol {
    uint32_t at, n;     /* bytes of the text; n 0: merged away */
    int32_t prev, next; /* NONE at the ends */
    uint32_t rank;      /* of the pair with next; NO_RANK when it is no word */
};

struct merging {
    const struct spm *spm;
    struct str text;
    struct symbol *symbol;
    struct merge_heap heap;
};

/* Order of floats as that of unsigned numbers, the other way round: the highest score is 0. NaN was
 * refused, so NO_RANK is never a score's. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    float plus = score + 0.0f; /* -0 and 0 are equal */
    memcpy(&bits, &plus, sizeof bits);
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

int spm_init(struct spm *s, const struct vocab *v, const struct gguf *file, struct arena *a,
             struct err *e)
{
    struct gguf_array scores;
    *s = (struct spm){.vocab = v, .unknown = NONE};
    int rc = gguf_get_array(file, "tokenizer.ggml.scores", &scores, e);
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    if (scores.strings || scores.n != v->n)
        return err_set(e, ERR_INVALID,
                       "tokenizer.ggml.scores: %llu entries; want %u numbers, one per token",
                       (unsigned long long)scores.n, v->n);
    s->rank = arena_array(a, v->n, sizeof *s->rank);
    if (!s->rank)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory for %u scores", v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        double score = gguf_array_f64(&scores, i);
        if (!isfinite(score))
            return err_set(e, ERR_INVALID, "tokenizer.ggml.scores: the score of token %u is %g", i,
                           score);
        s->rank[i] = rank_of_score((float)score);
        if (v->kind[i] == TOKEN_UNKNOWN)
            s->unknown = (int32_t)i;
    }
    return ERR_OK;
}

static uint32_t pair_rank(const struct merging *m, const struct symbol *left)
{
    if (left->next == NONE)
        return NO_RANK;
    uint32_t n = left->n + m->symbol[left->next].n;
    if (n > VOCAB_MAX_TOKEN_BYTES)
        return NO_RANK;
    int32_t id = vocab_find_word(m->spm->vocab, (struct str){m->text.p + left->at, n});
    return id < 0 ? NO_RANK : m->spm->rank[id];
}

static uint64_t key_of(uint32_t rank, size_t at)
{
    return (uint64_t)rank << 32 | at;
}

static void refresh(struct merging *m, int32_t at)
{
    struct symbol *s = &m->symbol[at];
    s->rank = pair_rank(m, s);
    if (s->rank != NO_RANK)
        merge_heap_push(&m->heap, key_of(s->rank, (size_t)at));
}

static void merge_at(struct merging *m, int32_t at)
{
    struct symbol *s = &m->symbol[at], *gone = &m->symbol[s->next];
    s->n += gone->n;
    s->next = gone->next;
    gone->rank = NO_RANK;
    if (s->next != NONE)
        m->symbol[s->next].prev = at;
    refresh(m, at);
    if (s->prev != NONE)
        refresh(m, s->prev);
}

static void merge_all(struct merging *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct symbol *s = &m->symbol[i];
        s->rank = pair_rank(m, s);
        if (s->rank != NO_RANK)
            m->heap.key[m->heap.n++] = key_of(s->rank, i);
    }
    merge_heap_order(&m->heap);
    while (m->heap.n) {
        uint64_t top = merge_heap_pop(&m->heap);
        int32_t at = (int32_t)(top & UINT32_MAX);
        if (m->symbol[at].rank == top >> 32)
            merge_at(m, at);
    }
}

/* Neighbours that are both unknown become one token, as in the reference. */
static void put_symbols(const struct merging *m, struct id_sink *out)
{
    const struct vocab *v = m->spm->vocab;
    bool was_unknown = false;
    for (int32_t at = 0; at != NONE; at = m->symbol[at].next) {
        struct str text = {m->text.p + m->symbol[at].at, m->symbol[at].n};
        int32_t id = vocab_find_word(v, text);
        bool is_unknown = false;
        for (size_t i = 0; id < 0 && i < text.n; i++)
            is_unknown |= v->byte_token[(unsigned char)text.p[i]] < 0;
        for (size_t i = 0; id < 0 && !is_unknown && i < text.n; i++)
            id_sink_put(out, v->byte_token[(unsigned char)text.p[i]]);
        if (id >= 0)
            id_sink_put(out, id);
        else if (is_unknown && !was_unknown && m->spm->unknown >= 0)
            id_sink_put(out, m->spm->unknown);
        was_unknown = is_unknown;
    }
}

static size_t cut_symbols(struct str text, struct symbol *symbol)
{
    size_t n = 0;
    for (size_t at = 0; at < text.n; n++) {
        uint32_t cp;
        size_t bytes = utf8_decode(str_slice(text, at, text.n), &cp);
        symbol[n] = (struct symbol){.at = (uint32_t)at, .n = bytes ? (uint32_t)bytes : 1};
        symbol[n].prev = (int32_t)n - 1;
        symbol[n].next = (int32_t)n + 1;
        at += symbol[n].n;
    }
    symbol[n - 1].next = NONE;
    return n;
}

int spm_encode(const struct spm *s, struct str text, struct id_sink *out, struct err *e)
{
    if (text.n == 0)
        return ERR_OK;
    if (text.n > MAX_TEXT_BYTES)
        return err_set(e, ERR_INVALID, "tokenizer: text of %zu bytes; at most %d", text.n,
                       MAX_TEXT_BYTES);
    struct merging m = {.spm = s,
                        .text = text,
                        .symbol = malloc(text.n * sizeof *m.symbol),
                        .heap = {.key = malloc(2 * text.n * sizeof *m.heap.key)}};
    int rc = ERR_OK;
    if (m.symbol && m.heap.key) {
        merge_all(&m, cut_symbols(text, m.symbol));
        put_symbols(&m, out);
    } else {
        rc = err_set(e, ERR_NOMEM, "tokenizer: no memory for a text of %zu bytes", text.n);
    }
    free(m.symbol);
    free(m.heap.key);
    return rc;
}
