/* The only file that knows zstd. An output is mostly names that every output says again and digits
 * (token ids, log probabilities), of which no search finds much more: what long repetitions leave
 * is coded by how often each character occurs. Frames name their size, so reading needs no guess; a
 * size beyond what the codecs accept is damage.
 *
 * The names stand in a dictionary (RFC 8878 section 5), and so do the tables that code what is left
 * of a usual output: without them every frame makes and carries its own. Short outputs take 20 to
 * 45% of their bytes. A BLOB begins with its dictionary's number; a frame without one, as earlier
 * versions wrote them, with zstd's own magic (section 3.1.1). */
#include "controller/store/pack.h"

#include "common/buf.h"
#include "common/hash.h"

#include <stdlib.h>
#define ZSTD_STATIC_LINKING_ONLY /* the name of one parameter, no function */
#include <zstd.h>

enum {
    LEVEL = -2,
    WORTHWHILE_BYTES = 256,
    MAX_TEXT = 16 * 1024 * 1024,
    DICTIONARIES = 2,
    TABLE_BYTES = 141
};

/* Stored outputs are unreadable without it: it never changes. Another one is number 3 beside it.
 * First the tables, as ZDICT_finalizeDictionary (zdict.h) made them of 1,200 outputs of a small
 * model, of tests/sim and of tests/bench; then the words. */
static const char TABLES_AND_WORDS[] =
    "\067\244\060\354\002\000\000\000\055\020\320\222\244\003\017\374\377\227\355\377\377\305"
    "\334\120\153\155\157\142\055\041\304\272\115\032\331\204\354\257\275\002\306\137\233\222"
    "\114\051\245\224\350\116\100\372\337\200\103\003\040\010\022\213\307\142\221\207\001\000"
    "\004\300\103\017\222\014\205\212\012\017\216\214\210\047\361\041\074\012\012\004\001\044"
    "\213\060\014\200\001\020\000\000\060\030\000\010\025\040\001\000\000\264\351\047\304\143"
    "\303\321\200\120\074\210\102\041\224\202\052\216\107\225\103\165\000\000\000\001\000\000"
    "\000\004\000\000\000\010\000\000\000"
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

/* By number - 1. The first is only read: it has no tables. */
static struct str dictionary(int i)
{
    return str_slice(STR(TABLES_AND_WORDS), i == 0 ? TABLE_BYTES : 0, sizeof TABLES_AND_WORDS - 1);
}

struct packer {
    ZSTD_CCtx *context;
};

/* A negative level looks at every few bytes only, and would leave what it does not find as it is:
 * zstd must be told to code that. A version that refuses writes larger frames. */
static bool set_up(ZSTD_CCtx *c)
{
    struct str words = dictionary(DICTIONARIES - 1);
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
    return !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_dictIDFlag, 0)) &&
           !ZSTD_isError(ZSTD_CCtx_loadDictionary(c, words.p, words.n));
}

struct packer *packer_new(void)
{
    struct packer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->context = ZSTD_createCCtx();
    if (p->context && set_up(p->context))
        return p;
    packer_free(p);
    return NULL;
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    ZSTD_freeCCtx(p->context);
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
    to[0] = DICTIONARIES;
    size_t n = ZSTD_compress2(p->context, to + 1, cap - 1, text.p, text.n);
    if (!ZSTD_isError(n) && n + 1 < text.n)
        *out = (struct packed){.bytes = {to, n + 1}, .is_frame = true};
    return ERR_OK;
}

struct unpacker {
    ZSTD_DCtx *context;
    ZSTD_DDict *words[DICTIONARIES];
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
    for (int i = 0; i < DICTIONARIES; i++)
        ZSTD_freeDDict(u->words[i]);
    buf_free(&u->text);
    free(u);
}

/* 150 KB, for walks that meet no frame. number 0: no dictionary. */
static bool make_context(struct unpacker *u, int number)
{
    if (!u->context)
        u->context = ZSTD_createDCtx();
    if (number && !u->words[number - 1]) {
        struct str words = dictionary(number - 1);
        u->words[number - 1] = ZSTD_createDDict(words.p, words.n);
    }
    return u->context && (!number || u->words[number - 1]);
}

static int unpack(struct unpacker *u, struct str blob, struct str *out, struct err *e)
{
    int number = blob.n && blob.p[0] > 0 && blob.p[0] <= DICTIONARIES ? blob.p[0] : 0;
    struct str frame = str_slice(blob, number != 0, blob.n);
    unsigned long long size = ZSTD_getFrameContentSize(frame.p, frame.n);
    buf_reset(&u->text);
    if (size > MAX_TEXT) /* unknown and error are larger than any size */
        return err_set(e, ERR_CORRUPT, "a stored output is not a zstd frame of at most %d bytes",
                       MAX_TEXT);
    if (!make_context(u, number) || !buf_reserve(&u->text, (size_t)size + 1))
        return err_set(e, ERR_NOMEM, "no memory to unpack an output");
    size_t n = ZSTD_decompress_usingDDict(u->context, u->text.p, (size_t)size, frame.p, frame.n,
                                          number ? u->words[number - 1] : NULL);
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
