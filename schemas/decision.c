/* Codec of milepost.decision.v1 and the hash that chains decisions.
 *
 * The hash covers the canonical JSON of every other field, previous_hash among them, so that a row
 * changed, removed or put in between breaks the chain from there on. No state; any thread. */
#include "schemas/decision.h"

#include "common/hash.h"
#include "schemas/codec.h"

#include <string.h>

enum { DECISION_MAX_BYTES = 256 * 1024, MAX_REASON = 4096, MAX_DETAIL = 64 * 1024 };

#define TEXT_FIELD(key, flags, max)                                                                \
    {                                                                                              \
#key, CODEC_TEXT, flags, offsetof(struct decision, key), 0, max                            \
    }
#define U64_FIELD(key)                                                                             \
    {                                                                                              \
#key, CODEC_U64, 0, offsetof(struct decision, key), 0, 0                                   \
    }
#define REAL_FIELD(key)                                                                            \
    {                                                                                              \
#key, CODEC_REAL, CODEC_SKIP_EMPTY, offsetof(struct decision, key), -1e300, 1e300          \
    }
#define NAME (CODEC_REQUIRED | CODEC_NOT_EMPTY)

static const struct codec_field FIELDS[] = {
    {"number", CODEC_U64, CODEC_REQUIRED, offsetof(struct decision, number), 0, 0},
    TEXT_FIELD(route, NAME, CODEC_MAX_NAME),
    TEXT_FIELD(action, NAME, CODEC_MAX_NAME),
    TEXT_FIELD(actor, NAME, CODEC_MAX_NAME),
    TEXT_FIELD(reason, CODEC_SKIP_EMPTY, MAX_REASON),
    TEXT_FIELD(experiment, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    U64_FIELD(from_revision),
    U64_FIELD(to_revision),
    TEXT_FIELD(test, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    REAL_FIELD(log_e),
    REAL_FIELD(log_threshold),
    U64_FIELD(n_champion),
    U64_FIELD(n_challenger),
    U64_FIELD(n_blocks),
    REAL_FIELD(mean_champion),
    REAL_FIELD(mean_challenger),
    REAL_FIELD(effect),
    U64_FIELD(first_row),
    U64_FIELD(last_row),
    {"at_us", CODEC_I64, CODEC_REQUIRED, offsetof(struct decision, at.us), 0, 0},
    {"previous_hash", CODEC_HEX, CODEC_REQUIRED, offsetof(struct decision, previous_hash), 0, 0},
};

static const struct codec_field HASH_FIELD[] = {
    {"hash", CODEC_HEX, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct decision, hash), 0, 0},
};

enum { N_FIELD = sizeof FIELDS / sizeof *FIELDS };

static json_t *encode_without_hash(const struct decision *d, struct err *e)
{
    json_t *obj = codec_new(DECISION_SCHEMA);
    int rc = obj ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory for a decision");
    if (rc == ERR_OK)
        rc = codec_write(obj, FIELDS, N_FIELD, d, e);
    if (rc == ERR_OK)
        rc = codec_put_object_text(obj, "detail", d->detail, e);
    if (rc != ERR_OK) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

json_t *decision_encode(const struct decision *d)
{
    json_t *obj = encode_without_hash(d, NULL);
    if (obj && codec_write(obj, HASH_FIELD, 1, d, NULL) != ERR_OK) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

int decision_seal(struct decision *d, struct err *e)
{
    json_t *obj = encode_without_hash(d, e);
    if (!obj)
        return e ? (int)e->code : ERR_INVALID;
    struct buf b;
    buf_init(&b, DECISION_MAX_BYTES);
    int rc = json_write_canonical(obj, &b, e);
    if (rc == ERR_OK)
        sha256_hex(buf_str(&b), d->hash);
    buf_free(&b);
    json_decref(obj);
    return rc;
}

static int check_hash(const struct decision *d, struct err *e)
{
    struct decision again = *d;
    int rc = decision_seal(&again, e);
    if (rc == ERR_OK && strcmp(again.hash, d->hash) != 0)
        rc = err_set(e, ERR_CORRUPT,
                     "decision %llu: its hash is %.12s..., its content gives %.12s...",
                     (unsigned long long)d->number, d->hash, again.hash);
    return rc;
}

int decision_decode(const struct json_at *at, struct arena *a, struct decision *out, struct err *e)
{
    *out = (struct decision){0};
    int rc = json_get_object(at, e);
    struct json_at schema_at = json_field(at, "schema");
    struct str schema = {0};
    if (rc == ERR_OK)
        rc = json_get_str(&schema_at, &schema, e);
    if (rc == ERR_NOT_FOUND)
        rc = ERR_INVALID;
    if (rc == ERR_OK && !str_eq_c(schema, DECISION_SCHEMA))
        rc = err_set(e, ERR_UNSUPPORTED, "$.schema: this build reads \"%s\", got \"%.64s\"",
                     DECISION_SCHEMA, schema.p);
    if (rc == ERR_OK)
        rc = codec_read(at, FIELDS, N_FIELD, a, out, e);
    if (rc == ERR_OK)
        rc = codec_read(at, HASH_FIELD, 1, a, out, e);
    if (rc == ERR_OK)
        rc = codec_get_object_text(at, "detail", MAX_DETAIL, a, &out->detail, e);
    return rc == ERR_OK ? check_hash(out, e) : rc;
}
