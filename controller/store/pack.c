/* The only file that knows zstd. Level 1: an output is mostly digits (token ids, log
 * probabilities), of which a stronger search finds little more; a short one is mostly words of the
 * dictionary, and what is left is not worth a code of its own (level -1). Frames name their size,
 * so reading needs no guess; a size beyond what the codecs accept is damage.
 *
 * What every output says again, names above all, stands in a dictionary (zstd's raw content): short
 * ones take 24 to 50% of their bytes, not 62 to 70%, and half the time. A BLOB begins with its
 * dictionary's number; a frame without one, as earlier versions wrote them, with zstd's own magic
 * (RFC 8878 section 3.1.1). */
#include "controller/store/pack.h"

#include "common/buf.h"
#include "common/hash.h"

#include <stdlib.h>
#include <zstd.h>

enum {
    LEVEL = 1,
    SHORT_LEVEL = -1,
    SHORT_BYTES = 800,
    WORTHWHILE_BYTES = 256,
    MAX_TEXT = 16 * 1024 * 1024,
    DICTIONARY = 1
};

/* Stored outputs are unreadable without it: it never changes. Another one is number 2 beside it. */
static const char WORDS[] =
    "\"finish_reason\":\"length\",\"stratum\":\"long\",\"arm\":\"challenger\",\"messages\":["
    "{\"role\":\"system\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"\"},"
    "\"metadata\":{\"reference\":"
    "{\"schema\":\"milepost.output.v1\",\"engine\":\"engine-1\",\"epoch\":1234567890123456,"
    "\"seq\":1,\"request_id\":\"chatcmpl-0\",\"choice\":0,\"route\":\"default\",\"revision\":1,"
    "\"arm\":\"champion\",\"experiment\":\"e1\",\"propensity\":1.0,\"stratum\":\"short\","
    "\"unit\":\"chatcmpl-0\",\"admission\":1,\"desired_version\":1,\"prompt\":\"\",\"text\":\"\","
    "\"finish_reason\":\"stop\",\"prompt_tokens\":16,\"cached_tokens\":0,\"completion_tokens\":16,"
    "\"queue_us\":50,\"ttft_us\":1000,\"decode_us\":20000,\"created_us\":1700000000000000,"
    "\"model\":\"\",\"weights\":\"\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
    "\"effective\":{\"temperature\":0.7,\"top_p\":1.0,\"top_k\":0,\"min_p\":0.0,"
    "\"repetition_penalty\":1.0,\"presence_penalty\":0.0,\"frequency_penalty\":0.0,"
    "\"max_new_tokens\":256,\"max_running\":16,\"prefill_chunk\":256},\"metadata\":{},"
    "\"token_ids\":[],\"logprobs\":[-0.0,-0.00]}";

struct packer {
    ZSTD_CCtx *context;
    ZSTD_CDict *words, *short_words;
};

struct packer *packer_new(void)
{
    struct packer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->context = ZSTD_createCCtx();
    p->words = ZSTD_createCDict(WORDS, sizeof WORDS - 1, LEVEL);
    p->short_words = ZSTD_createCDict(WORDS, sizeof WORDS - 1, SHORT_LEVEL);
    if (p->context && p->words && p->short_words)
        return p;
    packer_free(p);
    return NULL;
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    ZSTD_freeCCtx(p->context);
    ZSTD_freeCDict(p->words);
    ZSTD_freeCDict(p->short_words);
    free(p);
}

int packer_pack(struct packer *p, struct str text, struct arena *a, struct packed *out,
                struct err *e)
{
    *out = (struct packed){.bytes = text};
    if (text.n < WORTHWHILE_BYTES)
        return ERR_OK;
    size_t cap = 1 + ZSTD_compressBound(text.n);
    char *to = arena_alloc(a, cap);
    if (!to)
        return err_set(e, ERR_NOMEM, "no memory to pack an output");
    to[0] = DICTIONARY;
    const ZSTD_CDict *words = text.n < SHORT_BYTES ? p->short_words : p->words;
    size_t n = ZSTD_compress_usingCDict(p->context, to + 1, cap - 1, text.p, text.n, words);
    if (!ZSTD_isError(n) && n + 1 < text.n)
        *out = (struct packed){.bytes = {to, n + 1}, .is_frame = true};
    return ERR_OK;
}

struct unpacker {
    ZSTD_DCtx *context;
    ZSTD_DDict *words;
    struct buf text;
};

struct unpacker *unpacker_new(void)
{
    struct unpacker *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    buf_init(&u->text, MAX_TEXT);
    return u;
}

void unpacker_free(struct unpacker *u)
{
    if (!u)
        return;
    ZSTD_freeDCtx(u->context);
    ZSTD_freeDDict(u->words);
    buf_free(&u->text);
    free(u);
}

/* 150 KB, for walks that meet no frame. */
static bool make_context(struct unpacker *u)
{
    if (!u->context)
        u->context = ZSTD_createDCtx();
    if (!u->words)
        u->words = ZSTD_createDDict(WORDS, sizeof WORDS - 1);
    return u->context && u->words;
}

static int unpack(struct unpacker *u, struct str blob, struct str *out, struct err *e)
{
    bool has_words = blob.n && blob.p[0] == DICTIONARY;
    struct str frame = str_slice(blob, has_words, blob.n);
    unsigned long long size = ZSTD_getFrameContentSize(frame.p, frame.n);
    buf_reset(&u->text);
    if (size > MAX_TEXT) /* unknown and error are larger than any size */
        return err_set(e, ERR_CORRUPT, "a stored output is not a zstd frame of at most %d bytes",
                       MAX_TEXT);
    if (!make_context(u) || !buf_reserve(&u->text, (size_t)size + 1))
        return err_set(e, ERR_NOMEM, "no memory to unpack an output");
    size_t n = ZSTD_decompress_usingDDict(u->context, u->text.p, (size_t)size, frame.p, frame.n,
                                          has_words ? u->words : NULL);
    if (ZSTD_isError(n))
        return err_set(e, ERR_CORRUPT, "a stored output is damaged: %s", ZSTD_getErrorName(n));
    *out = (struct str){u->text.p, n};
    return ERR_OK;
}

int unpacker_read(struct unpacker *u, struct db_stmt *q, int column, struct str *out, struct err *e)
{
    if (db_col_is_blob(q, column))
        return unpack(u, db_col_blob(q, column), out, e);
    *out = db_col_str(q, column);
    return ERR_OK;
}

static void sql_unpack(sqlite3_context *c, int n, sqlite3_value **v)
{
    struct err e = {0};
    struct str text;
    struct unpacker *u = sqlite3_user_data(c);
    (void)n;
    if (sqlite3_value_type(v[0]) != SQLITE_BLOB) {
        sqlite3_result_value(c, v[0]);
        return;
    }
    struct str frame = {sqlite3_value_blob(v[0]), (size_t)sqlite3_value_bytes(v[0])};
    if (unpack(u, frame, &text, &e) == ERR_OK)
        sqlite3_result_text64(c, text.p, text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    else
        sqlite3_result_error(c, e.msg, -1);
}

static void sql_sha256(sqlite3_context *c, int n, sqlite3_value **v)
{
    unsigned char digest[SHA256_BYTES];
    (void)n;
    const char *p = (const char *)sqlite3_value_text(v[0]);
    sha256((struct str){p, (size_t)sqlite3_value_bytes(v[0])}, digest);
    sqlite3_result_blob(c, digest, sizeof digest, SQLITE_TRANSIENT);
}

static void free_unpacker(void *u)
{
    unpacker_free(u);
}

/* One context for the connection: making one costs more than reading an output with it. */
int pack_add_functions(struct db *d, struct err *e)
{
    struct unpacker *u = unpacker_new();
    if (!u)
        return err_set(e, ERR_NOMEM, "no memory to unpack outputs");
    int rc = db_add_function(d, "unpack", sql_unpack, u, free_unpacker, e);
    return rc == ERR_OK ? db_add_function(d, "sha256", sql_sha256, NULL, NULL, e) : rc;
}
