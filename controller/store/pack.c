/* The only file that knows zstd. Level 1: an output is mostly digits (token ids, log
 * probabilities), of which a stronger search finds little more. Frames name their size, so reading
 * needs no guess; a size beyond what the codecs accept is damage. */
#include "controller/store/pack.h"

#include "common/buf.h"
#include "common/hash.h"

#include <stdlib.h>
#include <zstd.h>

enum { LEVEL = 1, WORTHWHILE_BYTES = 256, MAX_TEXT = 16 * 1024 * 1024 };

struct packer {
    ZSTD_CCtx *context;
};

struct packer *packer_new(void)
{
    struct packer *p = calloc(1, sizeof *p);
    if (p)
        p->context = ZSTD_createCCtx();
    if (p && !p->context) {
        free(p);
        return NULL;
    }
    return p;
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
    size_t cap = ZSTD_compressBound(text.n);
    char *to = arena_alloc(a, cap);
    if (!to)
        return err_set(e, ERR_NOMEM, "no memory to pack an output");
    size_t n = ZSTD_compressCCtx(p->context, to, cap, text.p, text.n, LEVEL);
    if (!ZSTD_isError(n) && n < text.n)
        *out = (struct packed){.bytes = {to, n}, .is_frame = true};
    return ERR_OK;
}

struct unpacker {
    ZSTD_DCtx *context;
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
    buf_free(&u->text);
    free(u);
}

static int unpack(struct unpacker *u, struct str frame, struct str *out, struct err *e)
{
    unsigned long long size = ZSTD_getFrameContentSize(frame.p, frame.n);
    buf_reset(&u->text);
    if (size > MAX_TEXT) /* unknown and error are larger than any size */
        return err_set(e, ERR_CORRUPT, "a stored output is not a zstd frame of at most %d bytes",
                       MAX_TEXT);
    if (!u->context) /* 150 KB, for walks that meet no frame */
        u->context = ZSTD_createDCtx();
    if (!u->context || !buf_reserve(&u->text, (size_t)size + 1))
        return err_set(e, ERR_NOMEM, "no memory to unpack an output");
    size_t n = ZSTD_decompressDCtx(u->context, u->text.p, (size_t)size, frame.p, frame.n);
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
