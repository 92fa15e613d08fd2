/* Two ways to the same result: short words scan for the lowest rank in a small array (no memory,
 * few steps), long ones keep the candidates in a heap, so that a megabyte of one letter costs
 * n log n. A heap entry is rank << 32 | position: smallest first is exactly the order BPE asks for.
 * Entries are not removed when a pair changes; an entry counts only while the pair that stands at
 * its position still has its rank. */
#include "engine/text/bpe.h"

#include "common/hash.h"
#include "common/rng.h"
#include "engine/model/gguf.h"
#include "engine/text/byte_map.h"
#include "engine/text/merge_heap.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 40, NONE = -1 };
#define NO_RANK UINT32_MAX

struct bpe_merge {
    int32_t left, right;
    uint32_t rank_plus_1; /* 0: the slot is free */
};

static uint64_t find_slot(const struct bpe *b, int32_t left, int32_t right)
{
    int32_t pair[2] = {left, right};
    uint64_t at = hash64(pair, sizeof pair, b->seed) & b->mask;
    while (b->slot[at].rank_plus_1 && (b->slot[at].left != left || b->slot[at].right != right))
        at = (at + 1) & b->mask;
    return at;
}

/* NO_RANK when the pair never merges. */
static uint32_t pair_rank(const struct bpe *b, int32_t left, int32_t right)
{
    return b->slot[find_slot(b, left, right)].rank_plus_1 - 1;
}

/* Short words: rank[i] belongs to the pair (id[i], id[i + 1]). */
static void merge_short(const struct bpe *b, int32_t *id, size_t n, struct id_sink *out)
{
    uint32_t rank[SHORT_WORD];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = pair_rank(b, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_RANK)
            break;
        id[best] = b->result[rank[best]];
        n--;
        memmove(id + best + 1, id + best + 2, (n - best - 1) * sizeof *id);
        memmove(rank + best, rank + best + 1, (n - best - 1) * sizeof *rank);
        if (best + 1 < n)
            rank[best] = pair_rank(b, id[best], id[best + 1]);
        if (best > 0)
            rank[best - 1] = pair_rank(b, id[best - 1], id[best]);
    }
    for (size_t i = 0; i < n; i++)
        id_sink_put(out, id[i]);
}

struct symbol {
    int32_t id, prev, next; /* NONE at the ends */
    uint32_t rank;          /* of the pair with next; NO_RANK when none or when merged away */
};

/* Looks the pair at `at` up again and enters it. */
static void refresh(const struct bpe *b, struct symbol *s, int32_t at, struct merge_heap *h)
{
    s[at].rank = s[at].next == NONE ? NO_RANK : pair_rank(b, s[at].id, s[s[at].next].id);
    if (s[at].rank != NO_RANK)
        merge_heap_push(h, (uint64_t)s[at].rank << 32 | (uint32_t)at);
}

static void merge_at(const struct bpe *b, struct symbol *s, int32_t at, struct merge_heap *h)
{
    int32_t gone = s[at].next;
    s[at].id = b->result[s[at].rank];
    s[at].next = s[gone].next;
    if (s[at].next != NONE)
        s[s[at].next].prev = at;
    s[gone].rank = NO_RANK;
    refresh(b, s, at, h);
    if (s[at].prev != NONE)
        refresh(b, s, s[at].prev, h);
}

/* Every merge removes one entry and enters at most two, so 2 n entries are enough. */
static void merge_long(const struct bpe *b, struct symbol *s, size_t n, struct merge_heap *h,
                       struct id_sink *out)
{
    for (size_t i = 0; i < n; i++) {
        s[i].prev = (int32_t)i - 1;
        s[i].next = i + 1 < n ? (int32_t)i + 1 : NONE;
        s[i].rank = NO_RANK;
        if (i + 1 < n)
            s[i].rank = pair_rank(b, s[i].id, s[i + 1].id);
        if (s[i].rank != NO_RANK)
            h->key[h->n++] = (uint64_t)s[i].rank << 32 | i;
    }
    merge_heap_order(h);
    while (h->n) {
        uint64_t top = merge_heap_pop(h);
        int32_t at = (int32_t)(top & UINT32_MAX);
        if (s[at].rank == top >> 32)
            merge_at(b, s, at, h);
    }
    for (int32_t at = 0; at != NONE; at = s[at].next)
        id_sink_put(out, s[at].id);
}

static int encode_long(const struct bpe *b, struct str word, struct id_sink *out, struct err *e)
{
    if (word.n > BPE_MAX_WORD_BYTES)
        return err_set(e, ERR_INVALID, "tokenizer: a word of %zu bytes; at most %d", word.n,
                       BPE_MAX_WORD_BYTES);
    struct symbol *symbols = malloc(word.n * sizeof *symbols);
    struct merge_heap heap = {.key = malloc(2 * word.n * sizeof *heap.key)};
    int rc = ERR_OK;
    if (!symbols || !heap.key) {
        rc = err_set(e, ERR_NOMEM, "tokenizer: no memory for a word of %zu bytes", word.n);
        goto out;
    }
    size_t n = 0;
    for (size_t i = 0; i < word.n; i++) {
        int32_t id = b->vocab->byte_id[(unsigned char)word.p[i]];
        if (id >= 0)
            symbols[n++].id = id;
    }
    if (n)
        merge_long(b, symbols, n, &heap, out);
out:
    free(symbols);
    free(heap.key);
    return rc;
}

int bpe_encode_word(const struct bpe *b, struct str word, struct id_sink *out, struct err *e)
{
    if (word.n > SHORT_WORD)
        return encode_long(b, word, out, e);
    int32_t id[SHORT_WORD];
    size_t n = 0;
    for (size_t i = 0; i < word.n; i++) {
        id[n] = b->vocab->byte_id[(unsigned char)word.p[i]];
        n += id[n] >= 0;
    }
    merge_short(b, id, n, out);
    return ERR_OK;
}

/* One side of a merge, or both together: bytes at `to`, returns the word or -1. */
static int32_t find_part(const struct vocab *v, struct str text, char *to, size_t *n)
{
    ptrdiff_t bytes = text.n <= VOCAB_MAX_TOKEN_BYTES ? byte_map_decode(text, to) : -1;
    *n = bytes > 0 ? (size_t)bytes : 0;
    return *n ? vocab_find_word(v, (struct str){to, *n}) : -1;
}

static int add_merge(struct bpe *b, uint32_t rank, struct str text, struct err *e)
{
    char bytes[2 * VOCAB_MAX_TOKEN_BYTES];
    ptrdiff_t space = str_find(text, STR(" "), 0);
    if (space < 0)
        return err_set(e, ERR_INVALID,
                       "tokenizer.ggml.merges: merge %u '" STR_FMT
                       "': want two parts with a space between",
                       rank, STR_ARG(str_slice(text, 0, 80)));
    size_t n_left, n_right;
    int32_t left = find_part(b->vocab, str_slice(text, 0, (size_t)space), bytes, &n_left);
    int32_t right =
        find_part(b->vocab, str_slice(text, (size_t)space + 1, text.n), bytes + n_left, &n_right);
    int32_t whole = vocab_find_word(b->vocab, (struct str){bytes, n_left + n_right});
    if (left < 0 || right < 0 || whole < 0)
        return err_set(e, ERR_INVALID,
                       "tokenizer.ggml.merges: merge %u '" STR_FMT "': the %s is not a word of the "
                       "vocabulary; the file is damaged or of another tokenizer",
                       rank, STR_ARG(str_slice(text, 0, 80)),
                       left < 0    ? "first part"
                       : right < 0 ? "second part"
                                   : "whole");
    b->result[rank] = whole;
    uint64_t at = find_slot(b, left, right);
    if (!b->slot[at].rank_plus_1) /* a repeated merge keeps its first rank */
        b->slot[at] = (struct bpe_merge){left, right, rank + 1};
    return ERR_OK;
}

int bpe_init(struct bpe *b, const struct vocab *v, const struct gguf *file, struct arena *a,
             struct err *e)
{
    struct gguf_array merges;
    int rc = gguf_get_array(file, "tokenizer.ggml.merges", &merges, e);
    if (rc != ERR_OK)
        return err_wrap(e, "tokenizer");
    if (!merges.strings && merges.n)
        return err_set(e, ERR_INVALID, "tokenizer.ggml.merges: want an array of strings");
    if (merges.n > BPE_MAX_MERGES)
        return err_set(e, ERR_INVALID, "tokenizer.ggml.merges: %llu merges; at most %d",
                       (unsigned long long)merges.n, BPE_MAX_MERGES);
    uint64_t slots = 64;
    while (slots < 2 * merges.n)
        slots *= 2;
    *b = (struct bpe){.vocab = v, .mask = slots - 1, .seed = rng_entropy()};
    b->n_merges = (uint32_t)merges.n;
    b->slot = arena_array(a, slots, sizeof *b->slot);
    b->result = arena_array(a, merges.n + 1, sizeof *b->result);
    if (!b->slot || !b->result)
        return err_set(e, ERR_NOMEM, "tokenizer: no memory for %u merges", b->n_merges);
    for (uint32_t i = 0; i < b->n_merges; i++)
        TRY(add_merge(b, i, merges.strings[i], e));
out:
    return rc;
}
