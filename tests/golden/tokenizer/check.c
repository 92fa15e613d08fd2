/* Compares a tokenizer with golden ids: check [--vocabulary FILE.gguf | --env NAME] GOLDEN.bin...
 * The vocabulary's file, or the one the environment variable names (MILEPOST_TEST_MODEL), else exit
 * 77 (skipped). Also that decoding gives each string back, byte for byte, less the bytes that the
 * vocabulary does not have. Format: README.md. */
#include "common/io.h"
#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 28,
    RECORD_BYTES = 9,
    MAX_FILE = 32 << 20,
    MAX_IDS = 1 << 20,
    MAX_SHOWN = 10
};

struct check {
    struct tokenizer *tokenizer;
    const char *name;
    size_t id_bytes;
    bool is_pieces; /* SentencePiece: U+2581 is a space */
    bool is_missing[256];
    int32_t *ids;
    struct buf decoded, expected;
    uint32_t n_strings, n_wrong_ids, n_wrong_text;
};

static uint32_t read_u32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static void show(const struct check *c, const char *what, struct str text)
{
    if (c->n_wrong_ids + c->n_wrong_text > MAX_SHOWN)
        return;
    struct buf line;
    buf_init(&line, MiB);
    buf_put_json(&line, str_slice(text, 0, 200));
    printf("%s: string %u: %s: \"" STR_FMT "\"\n", c->name, c->n_strings, what,
           STR_ARG(buf_str(&line)));
    buf_free(&line);
}

static bool same_ids(const struct check *c, size_t n, const char *golden, size_t n_golden)
{
    if (n != n_golden)
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = 0; /* little-endian, as the hosts are */
        memcpy(&id, golden + i * c->id_bytes, c->id_bytes);
        if (c->ids[i] != (int32_t)id)
            return false;
    }
    return true;
}

static void expect_pieces(struct check *c, struct str text)
{
    static const struct str SPACE = {"\xE2\x96\x81", 3};
    while (text.n) {
        bool is_space = str_starts(text, SPACE);
        buf_put_char(&c->expected, is_space ? ' ' : *text.p);
        text = str_slice(text, is_space ? SPACE.n : 1, text.n);
    }
}

static bool has_unknown(const struct check *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c->ids[i] == tokenizer_get_info(c->tokenizer)->unk)
            return true;
    return false;
}

static bool same_text(struct check *c, struct str text, size_t n)
{
    if (c->is_pieces && has_unknown(c, n))
        return true; /* what an unknown token stood for is lost */
    buf_reset(&c->decoded);
    buf_reset(&c->expected);
    tokenizer_decode(c->tokenizer, c->ids, n, false, &c->decoded);
    if (c->is_pieces)
        expect_pieces(c, text);
    for (size_t i = 0; i < text.n && !c->is_pieces; i++)
        if (!c->is_missing[(unsigned char)text.p[i]])
            buf_put_char(&c->expected, text.p[i]);
    return str_eq(buf_str(&c->decoded), buf_str(&c->expected));
}

static int check_record(struct check *c, int flags, struct str text, const char *golden,
                        uint32_t n_golden, struct err *e)
{
    size_t n;
    int rc = tokenizer_encode(c->tokenizer, text, flags & 1, c->ids, MAX_IDS, &n, e);
    if (rc != ERR_OK)
        return rc;
    if (!same_ids(c, n, golden, n_golden)) {
        c->n_wrong_ids++;
        show(c, "other ids", text);
    }
    if (!same_text(c, text, n)) {
        c->n_wrong_text++;
        show(c, "decoding gives another text", text);
    }
    c->n_strings++;
    return ERR_OK;
}

static int check_records(struct check *c, struct str file, struct err *e)
{
    uint32_t n = read_u32(file.p + 24);
    file = str_slice(file, HEADER_BYTES, file.n);
    for (uint32_t i = 0; i < n; i++) {
        if (file.n < RECORD_BYTES)
            return err_set(e, ERR_CORRUPT, "golden file is cut at string %u", i);
        size_t n_text = read_u32(file.p + 1), n_ids = read_u32(file.p + 5);
        size_t total = RECORD_BYTES + n_text + c->id_bytes * n_ids;
        if (file.n < total)
            return err_set(e, ERR_CORRUPT, "golden file is cut at string %u", i);
        struct str text = str_slice(file, RECORD_BYTES, RECORD_BYTES + n_text);
        int rc = check_record(c, file.p[0], text, text.p + n_text, (uint32_t)n_ids, e);
        if (rc != ERR_OK)
            return rc;
        file = str_slice(file, total, file.n);
    }
    return file.n ? err_set(e, ERR_CORRUPT, "golden file is too long") : ERR_OK;
}

static int find_missing(struct check *c, struct err *e)
{
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        size_t n;
        int rc = tokenizer_encode(c->tokenizer, (struct str){&byte, 1}, false, c->ids, 1, &n, e);
        if (rc != ERR_OK)
            return rc;
        c->is_missing[i] = n == 0;
    }
    return ERR_OK;
}

static int check_file(struct check *c, const struct gguf *model, const char *path, struct err *e)
{
    struct buf file;
    char name[17] = "";
    int rc;
    buf_init(&file, MAX_FILE);
    TRY(io_read_file(path, &file, e));
    if (file.n < HEADER_BYTES || memcmp(file.p, "MPTOKEN", 7) != 0) {
        rc = err_set(e, ERR_CORRUPT, "%s: not a golden file", path);
        goto out;
    }
    memcpy(name, file.p + 8, 16);
    c->name = name;
    c->is_pieces = file.p[7] == '2';
    c->id_bytes = c->is_pieces ? 4 : 2;
    TRY(tokenizer_open_split(&c->tokenizer, model, str_from(name), e));
    if (!c->is_pieces)
        TRY(find_missing(c, e));
    TRY(check_records(c, buf_str(&file), e));
    printf("%s: %u strings, %u with other ids, %u not given back\n", name, c->n_strings,
           c->n_wrong_ids, c->n_wrong_text);
out:
    tokenizer_close(c->tokenizer);
    buf_free(&file);
    return rc;
}

/* NULL when the environment names no file. */
static const char *vocabulary_of(int argc, char **argv)
{
    static const struct option LONG[] = {
        {"vocabulary", required_argument, NULL, 'v'}, {"env", required_argument, NULL, 'e'}, {0}};
    const char *env = "MILEPOST_TEST_MODEL", *file = NULL;
    for (int c; (c = getopt_long(argc, argv, "", LONG, NULL)) != -1;)
        *(c == 'v' ? &file : &env) = optarg;
    if (!file)
        file = getenv(env);
    if (!file || !*file)
        printf("skipped: no model (set %s)\n", env);
    return file && *file ? file : NULL;
}

int main(int argc, char **argv)
{
    struct gguf *model;
    struct err e = {0};
    const char *path = vocabulary_of(argc, argv);
    if (!path)
        return 77;
    if (gguf_open(&model, path, &e) != ERR_OK) {
        printf("%s\n", e.msg);
        return 1;
    }
    bool failed = optind == argc;
    int32_t *ids = malloc(MAX_IDS * sizeof *ids);
    for (int i = optind; i < argc && ids; i++) {
        struct check c = {.ids = ids};
        buf_init(&c.decoded, MAX_FILE);
        buf_init(&c.expected, MAX_FILE);
        if (check_file(&c, model, argv[i], &e) != ERR_OK) {
            printf("%s: %s\n", argv[i], e.msg);
            failed = true;
        }
        failed |= c.n_strings == 0 || c.n_wrong_ids || c.n_wrong_text;
        buf_free(&c.decoded);
        buf_free(&c.expected);
    }
    failed |= !ids;
    free(ids);
    gguf_close(model);
    return failed;
}
