/* golden_logits BACKEND MAX_KL MIN_TOP1 GOLDEN.bin [--tiny ARCHITECTURE | --env NAME]
 * [--sequences N] [--int8-kv] [--dump FILE] - a backend against transformers in float32 on the
 * same dequantised weights. The model is a tiny random one, or the file an environment variable
 * names.
 *
 * Mean KL(theirs || ours) over the golden top of the vocabulary and one mass for the rest, and how
 * often the most likely token is the same. Each text runs as one sequence, in chunks of 64 tokens.
 * --int8-kv: also how many tokens a pool holds against f16, at least 1.9 times as many.
 * Exit 0 inside all bounds, 1 outside, 77 without a model. */
#include "common/io.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "tests/harness/tiny_model.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 64, MAX_TOKENS = 1024, MAX_GOLDEN = 16 << 20, SKIPPED = 77 };

#define MIN_POOL_GAIN 1.9

struct options {
    enum model_kv_type kv_type;
    const char *backend, *golden, *dump, *tiny, *env;
    double max_kl, min_top1;
    uint32_t sequences;
};

struct header { /* of the file, packed by make.py */
    char magic[4];
    uint32_t version, n_seq, top, n_vocab;
};

struct sequence {        /* borrowed from the file's bytes */
    uint32_t n, first;   /* positions; the first that is compared */
    const char *token;   /* int32 [n] */
    const char *id;      /* uint16, or uint32 above 65536, [n - first][top] */
    const char *logprob; /* float [n - first][top] */
};

struct totals {
    double kl, worst;
    uint64_t n, same;
};

struct check {
    struct options o;
    struct model *model;
    struct header header;
    struct totals totals;
    double pool_gain; /* tokens in the same bytes, against an f16 cache */
    float *logits;    /* [CHUNK][n_vocab] */
    FILE *dump;
};

static double log_sum_exp(const float *x, uint32_t n)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static uint32_t largest(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static size_t id_bytes(const struct check *c)
{
    return c->header.n_vocab <= 65536 ? 2 : 4;
}

/* Little-endian, as the hosts are. */
static uint32_t read_id(const struct check *c, const char *ids, size_t i)
{
    uint32_t id = 0;
    memcpy(&id, ids + i * id_bytes(c), id_bytes(c));
    return id < c->header.n_vocab ? id : 0;
}

/* sum over the top of p (log p - log q), and the same for what is left of both. */
static void add_position(struct check *c, const struct sequence *s, uint32_t at,
                         const float *logits)
{
    uint32_t top = c->header.top;
    double total = log_sum_exp(logits, c->header.n_vocab), kl = 0, rest_p = 1, rest_q = 1;
    uint32_t first = 0;
    for (uint32_t i = 0; i < top; i++) {
        uint32_t id = read_id(c, s->id, (size_t)at * top + i);
        float theirs;
        memcpy(&theirs, s->logprob + ((size_t)at * top + i) * sizeof theirs, sizeof theirs);
        double ours = (double)logits[id] - total, p = exp((double)theirs);
        kl += p * ((double)theirs - ours);
        rest_p -= p;
        rest_q -= exp(ours);
        first = i == 0 ? id : first;
    }
    if (rest_p > 1e-9 && rest_q > 1e-9)
        kl += rest_p * log(rest_p / rest_q);
    c->totals.kl += kl;
    c->totals.worst = kl > c->totals.worst ? kl : c->totals.worst;
    c->totals.same += largest(logits, c->header.n_vocab) == first;
    c->totals.n++;
}

static int run_chunk(struct check *c, const struct sequence *s, uint32_t from, uint32_t n,
                     struct err *e)
{
    static const uint32_t seq[CHUNK] = {0};
    int32_t token[CHUNK];
    uint32_t position[CHUNK], row[CHUNK], block[MAX_TOKENS / KV_BLOCK_TOKENS], n_row = 0;
    const uint32_t *table = block;
    for (uint32_t i = 0; i < MAX_TOKENS / KV_BLOCK_TOKENS; i++)
        block[i] = i;
    memcpy(token, s->token + from * sizeof *token, n * sizeof *token);
    for (uint32_t i = 0; i < n; i++) {
        position[i] = from + i;
        if (from + i >= s->first)
            row[n_row++] = i;
    }
    const struct model_batch b = {.n_tok = n,
                                  .token = token,
                                  .position = position,
                                  .seq = seq,
                                  .block_table = &table,
                                  .n_row = n_row,
                                  .row_token = row};
    int rc = model_forward(c->model, &b, c->logits, e);
    for (uint32_t i = 0; i < n_row && rc == ERR_OK; i++)
        add_position(c, s, from + row[i] - s->first, c->logits + (size_t)i * c->header.n_vocab);
    if (rc == ERR_OK && c->dump &&
        fwrite(c->logits, c->header.n_vocab * sizeof(float), n_row, c->dump) != n_row)
        rc = err_set(e, ERR_IO, "%s: cannot write", c->o.dump);
    return rc;
}

static int take(struct str *rest, size_t n, const char **out, struct err *e)
{
    if (rest->n < n)
        return err_set(e, ERR_CORRUPT, "golden file is cut off");
    *out = rest->p;
    *rest = str_slice(*rest, n, rest->n);
    return ERR_OK;
}

static int run_sequence(struct check *c, struct str *rest, struct err *e)
{
    struct sequence s;
    const char *p;
    int rc;
    TRY(take(rest, sizeof s.n + sizeof s.first, &p, e));
    memcpy(&s.n, p, sizeof s.n);
    memcpy(&s.first, p + sizeof s.n, sizeof s.first);
    if (s.n > MAX_TOKENS || s.first >= s.n)
        return err_set(e, ERR_CORRUPT, "golden file: sequence of %u tokens", s.n);
    size_t kept = (size_t)(s.n - s.first) * c->header.top;
    TRY(take(rest, s.n * sizeof(int32_t), &s.token, e));
    TRY(take(rest, kept * id_bytes(c), &s.id, e));
    TRY(take(rest, kept * sizeof(float), &s.logprob, e));
    for (uint32_t at = 0; at < s.n; at += CHUNK)
        TRY(run_chunk(c, &s, at, s.n - at < CHUNK ? s.n - at : CHUNK, e));
out:
    return rc;
}

static int run_all(struct check *c, struct str rest, struct err *e)
{
    const char *p;
    int rc;
    TRY(take(&rest, sizeof c->header, &p, e));
    memcpy(&c->header, p, sizeof c->header);
    if (memcmp(c->header.magic, "MPGL", 4) != 0 || c->header.version != 2)
        return err_set(e, ERR_CORRUPT, "not a golden file of version 2");
    if (c->header.n_vocab != model_get_info(c->model)->n_vocab)
        return err_set(e, ERR_INVALID, "the golden file belongs to another model");
    c->logits = calloc((size_t)CHUNK * c->header.n_vocab, sizeof *c->logits);
    if (!c->logits)
        return err_set(e, ERR_NOMEM, "logits");
    uint32_t n = c->header.n_seq;
    n = c->o.sequences && c->o.sequences < n ? c->o.sequences : n;
    for (uint32_t i = 0; i < n; i++)
        TRY(run_sequence(c, &rest, e));
out:
    return rc;
}

static int open_file(const struct options *o, const char *path, struct gguf **out, struct err *e)
{
    char made[] = "/tmp/milepost-golden-XXXXXX";
    if (!o->tiny)
        return gguf_open(out, path, e);
    int fd = mkstemp(made), rc;
    if (fd < 0)
        return err_set(e, ERR_IO, "cannot make a temporary file");
    close(fd);
    const struct tiny_model tiny = tiny_model_of(o->tiny);
    rc = tiny_model_write(&tiny, made, e);
    if (rc == ERR_OK)
        rc = gguf_open(out, made, e);
    unlink(made);
    return rc;
}

/* Bytes of a block in this cache and in one of f16, both as the model has them. */
static int compare_pools(struct check *c, const struct gguf *file, const struct model_options *o,
                         struct err *e)
{
    struct model_options f16 = *o;
    struct model *m = NULL;
    f16.kv_type = MODEL_KV_F16;
    int rc = model_open(&m, file, &f16, e);
    if (rc == ERR_OK)
        c->pool_gain = (double)model_get_info(m)->kv_bytes_per_block /
                       (double)model_get_info(c->model)->kv_bytes_per_block;
    model_close(m);
    return rc;
}

static int open_and_run(struct check *c, const char *path, struct err *e)
{
    struct gguf *file = NULL;
    struct buf golden;
    buf_init(&golden, MAX_GOLDEN);
    const struct model_options o = {.backend = c->o.backend,
                                    .kv_type = c->o.kv_type,
                                    .n_kv_blocks = MAX_TOKENS / KV_BLOCK_TOKENS,
                                    .max_batch_tokens = CHUNK,
                                    .max_batch_rows = CHUNK};
    int rc;
    TRY(io_read_file(c->o.golden, &golden, e));
    TRY(open_file(&c->o, path, &file, e));
    TRY(model_open(&c->model, file, &o, e));
    if (c->o.dump && !(c->dump = fopen(c->o.dump, "wb")))
        rc = err_set(e, ERR_IO, "%s: cannot write", c->o.dump);
    if (rc == ERR_OK)
        rc = run_all(c, buf_str(&golden), e);
    if (rc == ERR_OK && o.kv_type == MODEL_KV_INT8)
        rc = compare_pools(c, file, &o, e);
    if (c->dump && fclose(c->dump) != 0 && rc == ERR_OK)
        rc = err_set(e, ERR_IO, "%s: cannot write", c->o.dump);
out:
    free(c->logits);
    model_close(c->model);
    gguf_close(file);
    buf_free(&golden);
    return rc;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option LONG[] = {
        {"sequences", required_argument, NULL, 'n'}, {"dump", required_argument, NULL, 'd'},
        {"int8-kv", no_argument, NULL, 'k'},         {"tiny", required_argument, NULL, 't'},
        {"env", required_argument, NULL, 'e'},       {0}};
    o->env = "MILEPOST_TEST_MODEL";
    for (int c; (c = getopt_long(argc, argv, "", LONG, NULL)) != -1;) {
        if (c == 'n')
            o->sequences = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'k')
            o->kv_type = MODEL_KV_INT8;
        else if (c == 'd')
            o->dump = optarg;
        else if (c == 't')
            o->tiny = optarg;
        else if (c == 'e')
            o->env = optarg;
        else
            return false;
    }
    if (argc - optind != 4)
        return false;
    o->backend = argv[optind];
    o->max_kl = strtod(argv[optind + 1], NULL);
    o->min_top1 = strtod(argv[optind + 2], NULL);
    o->golden = argv[optind + 3];
    return true;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct err e = {0};
    if (!read_options(argc, argv, &c.o)) {
        fputs("usage: golden_logits BACKEND MAX_KL MIN_TOP1_PERCENT GOLDEN.bin "
              "[--tiny ARCHITECTURE | --env NAME] [--sequences N] [--int8-kv] [--dump FILE]\n",
              stderr);
        return 2;
    }
    const char *path = getenv(c.o.env);
    if (!c.o.tiny && (!path || !*path)) {
        printf("skipped: no model (set %s)\n", c.o.env);
        return SKIPPED;
    }
    if (open_and_run(&c, path, &e) != ERR_OK) {
        fprintf(stderr, "golden_logits: %s\n", e.msg);
        return 1;
    }
    double n = (double)c.totals.n, kl = c.totals.kl / n, top1 = 100 * (double)c.totals.same / n;
    bool is_good = kl < c.o.max_kl && top1 > c.o.min_top1;
    printf("backend %s: %.0f positions, mean KL %.3e (below %.0e), worst %.3e, "
           "top-1 agreement %.2f%% (above %.1f%%): %s\n",
           c.o.backend, n, kl, c.o.max_kl, c.totals.worst, top1, c.o.min_top1,
           is_good ? "good" : "OUTSIDE");
    if (c.o.kv_type == MODEL_KV_INT8) {
        bool is_small = c.pool_gain >= MIN_POOL_GAIN;
        printf("a pool holds %.2f times the tokens of f16 (at least %.1f): %s\n", c.pool_gain,
               MIN_POOL_GAIN, is_small ? "good" : "OUTSIDE");
        is_good = is_good && is_small;
    }
    return is_good ? 0 : 1;
}
